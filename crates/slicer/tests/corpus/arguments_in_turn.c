/* Several arguments of a call that the slice does without read a mapped file: in the compiler's order, which is not that of
 * the text.
 *
 * data: data.bin bytes 400000
 * run: data.bin
 * expect: sliced
 * vanishes: show
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint16_t two(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t four(const uint8_t *at)
{
    return two(at) | (uint32_t)two(at + 2) << 16;
}

static void show(unsigned a, unsigned b, unsigned c)
{
    printf("%u %u %u\n", a, b, c);
}

int main(int argc, char **argv)
{
    struct stat status;
    int fd = open(argc > 1 ? argv[1] : "data.bin", O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0)
        return 1;
    const uint8_t *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return 1;
    for (long at = 0; at + 80000 < status.st_size; at += 1 + four(bytes + at) % 60000) {
        printf("%u %u %u\n", bytes[at + 20000], four(bytes + at + 40000), bytes[at + 60000] + 1u);
        show(two(bytes + at + 70000), bytes[at + 5000], two(bytes + at + 30000));
    }
    munmap((void *)bytes, (size_t)status.st_size);
    close(fd);
    return 0;
}
