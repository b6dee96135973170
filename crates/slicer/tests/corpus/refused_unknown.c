/* A function without source computes the offset.
 *
 * object: refused_unknown_object.c
 * data: data.bin bytes 20000
 * run:
 * expect: refused mystery
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

long mystery(long at);

int main(void)
{
    char byte = 0;
    int fd = open("data.bin", O_RDONLY);
    for (long at = 0; at < 19000; at = mystery(at))
        if (pread(fd, &byte, 1, at) == 1)
            printf("%ld %d\n", at, byte);
    close(fd);
    return 0;
}
