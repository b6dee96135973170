/* rand() with a fixed seed decides: state of libc, so the slice runs as a process only.
 *
 * data: data.bin bytes 120000
 * run:
 * expect: sliced in a process
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    char byte;
    unsigned sum = 0;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    srand(42);
    for (int i = 0; i < 60; i++)
        if (pread(fd, &byte, 1, rand() % 120000) == 1)
            sum = sum * 5 + (unsigned char)byte;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
