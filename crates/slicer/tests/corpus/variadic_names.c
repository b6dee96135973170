/* Names, offsets and lists of files that are handed to functions with a variable number of arguments: by a format, one by
 * one, in a copy of the list, and from one such function to another.
 *
 * data: folder/a-1.bin bytes 60000
 * data: folder/b-2.bin bytes 50000
 * data: folder/c-3.bin bytes 40000
 * run: folder a b c
 * run: folder c a
 * run: nowhere a
 * only: x86_64
 * expect: sliced
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int calls;

static char *formatted(const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text == NULL)
        exit(3);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

static char *joined(int noted, const char *format, ...)
{
    va_list arguments;
    char *text;
    calls += noted;
    va_start(arguments, format);
    text = formatted(format, arguments);
    va_end(arguments);
    return text;
}

/* The sum of the bytes at these offsets; -1 ends them. What is not needed is handed in as well. */
static unsigned sum_at(const char *what, int fd, ...)
{
    va_list offsets;
    unsigned char byte;
    unsigned sum = (unsigned)strlen(what);
    int step;
    va_start(offsets, fd);
    while ((step = va_arg(offsets, int)) >= 0) {
        long *from = va_arg(offsets, long *);
        double weight = va_arg(offsets, double);
        if (pread(fd, &byte, 1, *from + step) == 1)
            sum = sum * 31 + (unsigned)(weight * byte);
        *from += step;
    }
    va_end(offsets);
    return sum;
}

/* Opens the first of these files that there is, as open(2) is used. */
static int first_of(int flags, ...)
{
    va_list names;
    const char *name;
    int fd = -1;
    va_start(names, flags);
    while (fd < 0 && (name = va_arg(names, const char *)) != NULL)
        fd = open(name, flags);
    va_end(names);
    return fd;
}

int main(int argc, char **argv)
{
    char *other = NULL;
    if (argc < 3 || asprintf(&other, "%s/none", argv[1]) < 0)
        return 1;
    for (int i = 2; i < argc; i++) {
        char *name = joined(i, "%s/%s-%d.bin", argv[1], argv[i], argv[i][0] - 'a' + 1);
        int fd = first_of(O_RDONLY, other, name, "folder/c-3.bin", (const char *)NULL);
        long at = 1000;
        printf("%s %u\n", name, sum_at("sum", fd, 35000, &at, 1.5, 400, &at, 2.0, 2500, &at, 0.5, -1));
        printf("%ld\n", at);
        close(fd);
        free(name);
    }
    free(other);
    printf("%d\n", calls);
    return 0;
}
