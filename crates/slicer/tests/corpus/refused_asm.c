/* Inline assembly computes the offset.
 *
 * data: data.bin bytes 4096
 * run:
 * expect: refused assembly
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char byte = 0;
    long at = 100;
    int fd = open("data.bin", O_RDONLY);
    __asm__("" : "+r"(at));
    if (pread(fd, &byte, 1, at) != 1)
        return 1;
    printf("%d\n", byte);
    return 0;
}
