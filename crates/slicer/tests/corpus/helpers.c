/* Offsets computed in helper functions: results, out-parameters, recursion, a static table.
 *
 * data: data.bin bytes 200000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct geometry {
    long width, height, cell;
};

static const int order[] = {3, 0, 2, 1, 4};

static long cell_offset(const struct geometry *g, long x, long y)
{
    return (y * g->width + x) * g->cell;
}

static void split(long number, const struct geometry *g, long *x, long *y)
{
    *x = number % g->width;
    *y = number / g->width;
}

static long triangle(long n)
{
    return n <= 0 ? 0 : n + triangle(n - 1);
}

static int noisy(const char *what, long value)
{
    fprintf(stderr, "%s %ld\n", what, value);
    return 0;
}

static void fetch(int fd, long offset, unsigned char *cell, long size)
{
    if (pread(fd, cell, (size_t)size, offset) != size)
        noisy("short read at", offset);
}

int main(void)
{
    struct geometry g = {25, 20, 400};
    unsigned char *cell = malloc((size_t)g.cell);
    int fd = open("data.bin", O_RDONLY);
    unsigned total = 0;
    long x, y;
    if (fd < 0 || cell == NULL)
        return 1;
    for (long n = 0; triangle(n) < g.width * g.height; n++) {
        split(triangle(n), &g, &x, &y);
        fetch(fd, cell_offset(&g, x, order[y % 5] + y / 5 * 5), cell, g.cell);
        for (long i = 0; i < g.cell; i++)
            total = total * 17 + cell[i];
    }
    close(fd);
    free(cell);
    printf("%u\n", total);
    return 0;
}
