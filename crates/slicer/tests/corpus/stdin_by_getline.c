/* Names and places from standard input, line by line in memory that getline() makes, the longest far beyond the others.
 *
 * data: data.bin bytes 300000
 * data: input.txt text data.bin 10\ndata.bin 70000\nmissing 5\ndata.bin                                                                                                                                                          150000\n\ndata.bin 20000
 * stdin: input.txt
 * run:
 * expect: sliced
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int each_line(int (*use)(char *))
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int count = 0;
    while ((length = getdelim(&line, &room, '\n', stdin)) != -1) {
        if (length > 0 && line[length - 1] == '\n')
            line[length - 1] = 0;
        count += use(line);
    }
    free(line);
    return count;
}

static unsigned sum;

static int read_there(char *line)
{
    unsigned char byte = 0;
    char *space = strchr(line, ' ');
    if (!space)
        return 0;
    *space = 0;
    int fd = open(line, O_RDONLY);
    if (fd < 0)
        return 0;
    if (pread(fd, &byte, 1, atol(space + 1)) == 1)
        sum = sum * 31 + byte;
    close(fd);
    return 1;
}

int main(void)
{
    int count = each_line(read_there);
    printf("%d %u\n", count, sum);
    return 0;
}
