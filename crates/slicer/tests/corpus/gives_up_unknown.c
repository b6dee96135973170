/* A function without source changes offsets, but only if it is asked for.
 *
 * object: gives_up_unknown_object.c
 * data: data.bin bytes 20000
 * run: 7
 * run: 7 mystery
 * expect: until mystery
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void mystery(long *at);

int main(int argc, char **argv)
{
    char byte = 0;
    int fd = open("data.bin", O_RDONLY);
    long step = 1000 * (argc > 1 ? atoi(argv[1]) : 1);
    for (long at = 0; at < 19000;) {
        if (pread(fd, &byte, 1, at) == 1)
            printf("%ld %d\n", at, byte);
        if (argc > 2 && at > 9000)
            mystery(&at);
        else
            at += step / 4;
    }
    close(fd);
    return 0;
}
