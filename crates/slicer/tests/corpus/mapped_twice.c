/* Mapped memory that is read in statements of all kinds: in loops with and without braces, in `if`, `switch` and `return`,
 * beside labels and variables that there is one of, and where other files are read and mapped in between.
 *
 * data: a.bin bytes 60000
 * data: b.bin bytes 20000
 * run: a.bin b.bin
 * run: b.bin
 * run: none.bin
 * run:
 * expect: sliced
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct view {
    const unsigned char *at, *end;
};

static unsigned sum;

static uint32_t number(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 |
           (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int next(struct view *view)
{
    return view->at < view->end ? *view->at++ : -1;
}

static unsigned counted(const struct view *view)
{
    static unsigned calls;
    unsigned found = ++calls;
    for (const unsigned char *p = view->at; p < view->end; p += 64)
        if (*p > 200)
            found += *p;
        else if (*p == 0)
            break;
    for (const unsigned char *p = view->at; p < view->end; p++)
        found += *p == 'x';
    return found;
}

static unsigned kinds(const unsigned char *p, size_t bytes)
{
    unsigned found = 0;
    size_t i = 0;
again:
    while (i < bytes) {
        switch (p[i++]) {
        case 1:
        case 2:
            found += p[bytes - i];
            break;
        case 3:
            goto again;
        default:
            found++;
        }
        i += 100;
    }
    switch (p[0] % 4) {
        do {
        case 1:
            found += p[i % bytes];
        case 2:
            i += 7;
        } while (i % 5 != 0);
    }
    assert(found > 0 || p[0] == p[1]);
    if (p[bytes / 2] > p[bytes / 3]) found += p[2]; else found -= p[3];
    return found;
}

static void one(const char *name, int others)
{
    struct stat status;
    int fd = open(name, O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0)
        return;
    size_t bytes = (size_t)status.st_size;
    const unsigned char *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return;
    struct view view = {p, p + bytes};
    for (size_t i = 0; i + 4 <= bytes; i += 3000)
        sum = sum * 31 + number(p + i);
    for (int byte; (byte = next(&view)) >= 0 && byte != 17;)
        sum += (unsigned)byte;
    view.at = p;
    sum += counted(&view) + kinds(p, bytes);
    for (size_t i = 0; i < bytes; i += 10000) {
        unsigned char byte = 0;
        if (pread(fd, &byte, 1, (off_t)p[i] * 16) == 1)
            sum = sum * 31 + byte + p[i + 1];
    }
    while (others-- > 0)
        sum += p[others];
    munmap((void *)p, bytes);
    close(fd);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        one(argv[i], argc);
    printf("%u\n", sum);
    return 0;
}
