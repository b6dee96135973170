/* Variables that two units define, as C had it before GCC 10, and those that lie in a unit without any function.
 *
 * unit: common_data.c
 * flags: -fcommon
 * data: data.bin bytes 300000
 * run: 3
 * run: 9 data.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *name;
long step;
extern long limits[4];

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    if (argc > 2)
        name = argv[2];
    step = argc > 1 ? atoi(argv[1]) * 4096L : 4096;
    limits[1] += step;
    int fd = open(name ? name : "data.bin", O_RDONLY);
    for (long at = limits[1]; at >= limits[0]; at -= step)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
