/* A function with a variable number of arguments that only prints and ends: what it prints is not needed.
 *
 * data: data.bin bytes 60000
 * run: data.bin
 * run: absent.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    exit(3);
}

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0)
        die("%s: %d\n", argv[1], argc);
    for (long at = 56000; at >= 0; at -= 8000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
