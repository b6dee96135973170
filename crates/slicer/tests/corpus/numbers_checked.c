/* Offsets come in as text, and errno says whether they are numbers: what else has failed before does not count.
 *
 * data: offsets.txt text 40960\n999999999999999999999999\n8192\n123456\nx\n77777\n
 * data: data.bin bytes 200000
 * stdin: offsets.txt
 * run:
 * expect: sliced
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long number(const char *text)
{
    long found;
    errno = 0;
    found = strtol(text, NULL, 10);
    if (errno != 0)
        return -1;
    return found;
}

int main(void)
{
    char line[64];
    unsigned sum = 0;
    int fd = open("nowhere.bin", O_RDONLY);
    if (fd < 0)
        fd = open("data.bin", O_RDONLY);
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned char byte;
        long at = number(line);
        if (at >= 0 && pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    }
    close(fd);
    printf("%u\n", sum);
    return 0;
}
