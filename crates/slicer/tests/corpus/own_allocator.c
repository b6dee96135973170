/* A library takes functions of its user's in place of malloc(3), and this user gives none. What it reads into memory that it has from there
 * is predicted all the same, and so is what is read afterwards without it.
 *
 * data: a.bin bytes 170000
 * data: b.bin bytes 200000
 * run: a.bin b.bin
 * run: b.bin b.bin
 * run: missing.bin b.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct allocator {
    void *(*allocate)(void *state, size_t bytes);
    void (*release)(void *state, void *memory);
    void *state;
};

static const struct allocator of_the_library = {NULL, NULL, NULL};

static void *take(struct allocator own, size_t bytes)
{
    if (own.allocate != NULL) {
        void *memory = own.allocate(own.state, bytes);
        if (memory != NULL)
            memset(memory, 0, bytes);
        return memory;
    }
    return calloc(1, bytes);
}

static void give_back(struct allocator own, void *memory)
{
    if (own.release != NULL)
        own.release(own.state, memory);
    else
        free(memory);
}

static unsigned chase(const char *path, struct allocator own)
{
    unsigned sum = 0;
    unsigned *buffer = take(own, 16);
    int fd = open(path, O_RDONLY);
    unsigned at = 0;
    for (int i = 0; fd >= 0 && i < 60; i++) {
        if (pread(fd, buffer, 16, (off_t)(at % 40) * 4096) != 16)
            break;
        sum = sum * 31 + buffer[1];
        at = buffer[0];
    }
    give_back(own, buffer);
    if (fd >= 0)
        close(fd);
    return sum;
}

int main(int argc, char **argv)
{
    unsigned sum = argc > 2 ? chase(argv[1], of_the_library) : 0;
    int fd = open(argv[2], O_RDONLY);
    if (fd < 0)
        return 1;
    unsigned char byte;
    for (off_t at = lseek(fd, 0, SEEK_END) - 1; at >= 0; at -= 5000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
