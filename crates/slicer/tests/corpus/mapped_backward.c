/* A mapped file is read backwards, by bytes, by words, and by words that lie across pages: each begins right before what was
 * touched last.
 *
 * data: data.bin bytes 70000
 * run: data.bin 1
 * run: data.bin 8
 * run: data.bin 4
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct loose {
    uint32_t value;
} __attribute__((packed));

int main(int argc, char **argv)
{
    struct stat status;
    unsigned long sum = 0;
    int fd = open(argv[1], O_RDONLY), step = argc > 2 ? atoi(argv[2]) : 1;
    if (fd < 0 || fstat(fd, &status) != 0)
        return 1;
    const unsigned char *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return 1;
    const uint64_t *words = (const void *)bytes;
    if (step == 1)
        for (long at = status.st_size; at-- > 0;)
            sum = sum * 31 + bytes[at];
    else if (step == 8)
        for (long at = status.st_size / 8; at-- > 0;)
            sum = sum * 31 + words[at];
    else
        for (long at = status.st_size - 8; at >= 0; at -= 3)
            sum = sum * 31 + ((const struct loose *)(const void *)(bytes + at))->value;
    munmap((void *)bytes, (size_t)status.st_size);
    close(fd);
    printf("%lu\n", sum);
    return 0;
}
