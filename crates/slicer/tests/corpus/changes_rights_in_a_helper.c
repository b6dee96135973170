/* The same in functions of its own: one that goes on, one that reads a file itself.
 *
 * data: first.bin bytes 60000
 * data: second.bin bytes 60000
 * data: limits text 0\n
 * run: first.bin - second.bin
 * run: first.bin + second.bin
 * untouched: second.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void drop_rights(void)
{
    if (setgid(getgid()) != 0)
        abort();
}

static void drop_rights_from(const char *path)
{
    char line[32];
    FILE *file = fopen(path, "r");
    if (file != NULL && fgets(line, sizeof line, file) != NULL && atoi(line) == 0)
        drop_rights();
    if (file != NULL)
        fclose(file);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-") == 0)
            drop_rights();
        else if (strcmp(argv[i], "+") == 0)
            drop_rights_from("limits");
        else
            printf("%u\n", sum_of(argv[i]));
    }
    return 0;
}
