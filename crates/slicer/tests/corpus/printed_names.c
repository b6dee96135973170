/* Names that a function with a list of arguments makes: the slice needs them, and so passes such a list on.
 *
 * data: data.bin bytes 60000
 * run: data.bin
 * run: absent.bin
 * only: x86_64
 * expect: sliced
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

typedef void (*maker)(char *, const char *, va_list);

static int parts;

static void make(char *name, const char *format, va_list arguments)
{
    vsnprintf(name, 40, format, arguments);
    if (name[0] == '#')
        parts++;
}

static maker made_by = make;

static void named(char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    made_by(name, format, arguments);
    make(name, format, arguments);
    va_end(arguments);
}

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    char name[40];
    for (long at = 56000; at >= 0; at -= 8000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    named(name, "%d", argc);
    for (long at = 50000; at >= 0; at -= 10000)
        if (pread(fd, &byte, 1, at - parts) == 1)
            sum = sum * 31 + byte;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
