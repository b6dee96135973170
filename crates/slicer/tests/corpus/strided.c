/* A header of 16 bytes from each record, with a stride: pread and nested loops.
 *
 * data: data.bin bytes 131072
 * run: 3 4096
 * run: 7 512
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned char head[16];
    long passes = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    off_t stride = argc > 2 ? strtol(argv[2], NULL, 10) : 4096;
    int fd = open("data.bin", O_RDONLY);
    unsigned sum = 0;
    if (fd < 0)
        return 1;
    for (long pass = 0; pass < passes; pass++) {
        for (off_t at = pass * 64; pread(fd, head, sizeof head, at) == (ssize_t)sizeof head; at += stride)
            for (size_t i = 0; i < sizeof head; i++)
                sum ^= (unsigned)head[i] << (i + pass) % 24;
    }
    close(fd);
    printf("%08x\n", sum);
    return (int)(sum % 7);
}
