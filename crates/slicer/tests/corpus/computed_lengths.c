/* Arrays whose length is computed where they are declared: from a parameter, from the number of files, from the length of a
 * name, and one that is asked for its size.
 *
 * data: a.bin bytes 300000
 * data: b.bin bytes 90000
 * data: c.bin bytes 5000
 * run: a.bin b.bin c.bin
 * run: b.bin
 * run: none.bin a.bin
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned sum;

static void read_at(int fd, long at)
{
    unsigned char byte;
    if (pread(fd, &byte, 1, at) == 1)
        sum = sum * 31 + byte;
}

static void in_order(int fd, int count, int rows)
{
    long at[count + 1], grid[rows][count];
    for (int i = 0; i <= count; i++)
        at[i] = (long)(i * 7 % (count + 1)) * 4096;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < count; i++)
            grid[row][i] = at[i] + row * 512;
    count = 0;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        read_at(fd, at[i]);
    for (size_t i = sizeof grid / sizeof(long); i > 0; i--)
        read_at(fd, (&grid[0][0])[i - 1] + count);
}

int main(int argc, char **argv)
{
    int files[argc], loop = 1;
    for (int i = 1; i < argc; i++)
        files[i] = open(argv[i], O_RDONLY);
    while (loop < argc) {
        char name[strlen(argv[loop]) + 1];
        strcpy(name, argv[loop]);
        if (files[loop] >= 0)
            in_order(files[loop], 5 + name[0] % 4, 3);
        loop++;
    }
    for (int i = 1; i < argc; i++)
        if (files[i] >= 0)
            close(files[i]);
    printf("%u\n", sum);
    return 0;
}
