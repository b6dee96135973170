/* What C11 and GNU C have besides: `_Generic`, `_Atomic`, statement expressions, ranges of cases, `__auto_type`.
 *
 * data: data.bin bytes 300000
 * run: 3
 * run: 8
 * expect: sliced
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LARGER(a, b)                                                                                                   \
    ({                                                                                                                 \
        __auto_type one = (a);                                                                                         \
        __auto_type other = (b);                                                                                       \
        one > other ? one : other;                                                                                     \
    })

static long of_int(int number)
{
    return number * 4096L;
}

static long of_long(long number)
{
    return number;
}

#define OFFSET(x) _Generic((x), int: of_int, long: of_long)(x)

static _Atomic int count;

static int kind(int number)
{
    switch (number) {
    case 0 ... 4:
        return 1;
    default:
        return 2;
    }
}

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    int most = argc > 1 ? atoi(argv[1]) : 1;
    int fd = open("data.bin", O_RDONLY);
    for (int i = LARGER(most, 5); i > 0; i--) {
        count++;
        if (pread(fd, &byte, 1, OFFSET(i) + OFFSET(100000L) * (kind(i) - 1)) == 1)
            sum = sum * 31 + byte;
    }
    close(fd);
    printf("%u %d\n", sum, (int)count);
    return 0;
}
