/* A file read backwards, block by block: the worst case for read-ahead, Figure 2 of the paper.
 *
 * data: data.bin bytes 98304
 * run: data.bin 4096
 * run: data.bin 8192
 * run: data.bin 1000
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static unsigned char block[65536];
    if (argc < 3)
        return 2;
    int size = atoi(argv[2]);
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0) {
        perror(argv[1]);
        return 1;
    }
    long blocks = lseek(fd, 0, SEEK_END) / size;
    unsigned long sum = 0;
    for (long i = blocks - 1; i >= 0; i--) {
        lseek(fd, i * size, SEEK_SET);
        ssize_t got = read(fd, block, size);
        for (ssize_t j = 0; j < got; j++)
            sum = sum * 31 + block[j];
    }
    close(fd);
    printf("%ld blocks, %lu\n", blocks, sum);
    return 0;
}
