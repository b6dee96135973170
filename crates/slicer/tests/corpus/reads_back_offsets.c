/* What was written is read back and says where to read next: in a file that was there, and in one that it makes.
 *
 * data: work.bin bytes 40000
 * data: other.bin bytes 50000
 * run: work.bin
 * expect: begun
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static uint32_t follow(int fd, int other)
{
    uint32_t next, at = 0, sum = 0;
    unsigned char byte;
    for (uint32_t i = 0; i < 9; i++) {
        next = (i + 1) * 4000;
        if (pwrite(fd, &next, sizeof next, i * 4000) != (ssize_t)sizeof next)
            return 0;
    }
    while (at < 36000 && pread(fd, &next, sizeof next, at) == (ssize_t)sizeof next) {
        at = next;
        if (pread(other, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
        /* Elsewhere, which nobody reads. */
        if (pwrite(fd, "x", 1, at + 100) != 1)
            return 0;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int there = argc > 1 ? open(argv[1], O_RDWR) : -1, made = open("made.bin", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int other = open("other.bin", O_RDONLY);
    if (there < 0 || made < 0 || other < 0)
        return 1;
    printf("%u\n", (unsigned)follow(there, other));
    printf("%u\n", (unsigned)follow(made, other));
    close(there);
    close(made);
    close(other);
    return 0;
}
