/* Raises a limit of resources, and goes on; where it lowers one, the slice ends. What it did is in a line of its own.
 *
 * data: first.bin bytes 60000
 * data: second.bin bytes 60000
 * data: third.bin bytes 60000
 * run: first.bin + second.bin
 * run: + first.bin + second.bin - third.bin
 * says: foretell_slice_limited();
 * untouched: third.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned sum_of(const char *path)
{
    unsigned char byte;
    unsigned sum = 0;
    int fd = open(path, O_RDONLY);
    for (long at = 56000; at >= 0; at -= 8000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    return sum;
}

static void change(int up)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = up ? limit.rlim_max : limit.rlim_cur - 1;
    printf("%d\n", setrlimit(RLIMIT_NOFILE, &limit));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "+") == 0 || strcmp(argv[i], "-") == 0)
            change(argv[i][0] == '+');
        else
            printf("%u\n", sum_of(argv[i]));
    }
    return 0;
}
