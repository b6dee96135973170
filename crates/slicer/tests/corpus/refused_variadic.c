/* A name that is made by a function with a variable number of arguments, as in many programs (xasprintf).
 *
 * expect: refused variable number of arguments
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *joined(const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        exit(3);
    va_end(arguments);
    return text;
}

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    if (argc < 3)
        return 1;
    char *path = joined("%s/%s", argv[1], argv[2]);
    int fd = open(path, O_RDONLY);
    for (long at = 56000; at >= 0; at -= 8000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    free(path);
    printf("%u\n", sum);
    return 0;
}
