/* A mapped file: a byte of every other page, from the end; then a table within it is followed.
 *
 * data: data.bin bytes 163840
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
    struct stat status;
    unsigned sum = 0;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0)
        return 1;
    const unsigned char *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return 1;
    close(fd);
    for (long at = (long)status.st_size - 1; at >= 0; at -= 8192)
        sum = sum * 3 + map[at];
    for (int i = 0; i < 16; i++) {
        long at = (map[i * 4] << 8 | map[i * 4 + 1]) % status.st_size;
        sum += map[at] * (unsigned)i;
    }
    munmap((void *)map, (size_t)status.st_size);
    printf("%u\n", sum);
    return 0;
}
