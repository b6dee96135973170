/* Variables of other files that are declared in functions: one of the library's, and one of the program's.
 *
 * data: data.bin bytes 90000
 * run: -s 3 data.bin
 * run: data.bin
 * expect: sliced in a process
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

int getopt(int, char *const *, const char *);
int close(int);

long steps = 5;

static unsigned read_all(int fd)
{
    extern long steps;
    extern long pread(int, void *, unsigned long, long);
    unsigned char byte;
    unsigned sum = 0;
    for (long at = 80000; at >= 0 && pread(fd, &byte, 1, at) == 1; at -= 4096 * steps)
        sum = sum * 31 + byte;
    return sum;
}

int main(int argc, char **argv)
{
    extern char *optarg;
    extern int optind;
    int option;
    while ((option = getopt(argc, argv, "s:")) != -1)
        if (option == 's')
            steps = atol(optarg);
    int fd = open(argv[optind], O_RDONLY);
    printf("%u\n", read_all(fd));
    return close(fd);
}
