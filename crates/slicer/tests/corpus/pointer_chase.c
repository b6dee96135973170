/* Each block holds the number of the next: addresses depend on data, so the slice reads it as well.
 *
 * data: chain.bin chain 40 4096
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    uint32_t block[1024], number = 0, sum = 0, steps = 0;
    int fd = open("chain.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    do {
        if (pread(fd, block, sizeof block, (off_t)number * (off_t)sizeof block) != (ssize_t)sizeof block)
            return 1;
        for (int i = 1; i < 1024; i++)
            sum = sum * 5 + block[i];
        number = block[0];
        steps++;
    } while (number != 0 && steps < 1000);
    close(fd);
    printf("%u steps, %u\n", (unsigned)steps, (unsigned)sum);
    return 0;
}
