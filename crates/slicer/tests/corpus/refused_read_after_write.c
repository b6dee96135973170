/* What was written is read back and says where to read next.
 *
 * data: work.bin bytes 40000
 * run:
 * expect: refused write
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    uint32_t next, at = 0;
    int fd = open("work.bin", O_RDWR);
    if (fd < 0)
        return 1;
    for (uint32_t i = 0; i < 9; i++) {
        next = (i + 1) * 4000;
        if (pwrite(fd, &next, sizeof next, i * 4000) != (ssize_t)sizeof next)
            return 1;
    }
    while (at < 36000 && pread(fd, &next, sizeof next, at) == (ssize_t)sizeof next)
        at = next;
    close(fd);
    printf("%u\n", (unsigned)at);
    return 0;
}
