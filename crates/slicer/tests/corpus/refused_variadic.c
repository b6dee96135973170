/* Structures among a variable number of arguments.
 *
 * expect: refused va_arg
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct place {
    long page, byte;
};

static unsigned sum_at(int fd, int count, ...)
{
    va_list places;
    unsigned char byte;
    unsigned sum = 0;
    va_start(places, count);
    while (count-- > 0) {
        struct place place = va_arg(places, struct place);
        if (pread(fd, &byte, 1, place.page * 4096 + place.byte) == 1)
            sum = sum * 31 + byte;
    }
    va_end(places);
    return sum;
}

int main(int argc, char **argv)
{
    struct place first = {9, argc}, second = {4, 0};
    int fd = open(argv[1], O_RDONLY);
    printf("%u\n", sum_at(fd, 2, first, second));
    close(fd);
    return 0;
}
