/* Arrays whose length is a member of a structure, an element, what a pointer points to, a variable of the file that is
 * written, or any of these in a longer expression.
 *
 * data: a.bin bytes 300000
 * run: a.bin
 * run: a.bin 3
 * run: none.bin
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECTOR = 512 };

struct disk {
    int fd;
    struct shape {
        unsigned sector, shift;
        short counts[2];
    } shape, *other;
};

static unsigned sum;
static int width = 1;

static void read_some(const struct disk *disk, long at, size_t size)
{
    unsigned char bytes[size];
    if (pread(disk->fd, bytes, size, at) > 0)
        sum = sum * 31 + bytes[0];
}

static void read_all(struct disk *disk, int *more)
{
    char sector[disk->shape.sector], clusters[disk->other->sector << disk->shape.shift];
    char table[(unsigned)disk->shape.counts[1]][sizeof(long) * 2];
    char rest[(*more) + width], either[width > 2 ? SECTOR : 2 * SECTOR | (int)(disk->shape.sector >= 'a')];
    disk->shape.sector = 1;
    *more = 0;
    width++;
    for (size_t i = sizeof clusters / SECTOR; i > 0; i--)
        read_some(disk, (long)(i * 8192), sizeof sector);
    read_some(disk, (long)(sizeof table + 100 * sizeof rest), 16);
    for (size_t i = 0; i < sizeof either; i += SECTOR)
        read_some(disk, (long)(200000 - i * 64), 8);
}

int main(int argc, char **argv)
{
    struct shape other = {SECTOR, 0, {0, 0}};
    struct disk disk = {-1, {SECTOR, 3, {5, 7}}, &other};
    int more = 900;
    if (argc > 1)
        disk.fd = open(argv[1], O_RDONLY);
    if (disk.fd < 0)
        return 1;
    if (argc > 2)
        width = atoi(argv[2]);
    read_all(&disk, &more);
    close(disk.fd);
    printf("%u %d\n", sum, more);
    return 0;
}
