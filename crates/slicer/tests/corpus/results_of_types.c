/* Functions that are declared by the name of their type, that return pointers to functions and to arrays, and that
 * return `void` by another name.
 *
 * data: a.bin bytes 300000
 * run: a.bin
 * run: none.bin
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

typedef long order(long, const long *);
typedef void VOID;

static order forward, backward;
static long places[2][4] = {{3, 1, 2, 0}, {40, 10, 30, 20}};

static long forward(long i, const long *table)
{
    return table[i] * 4096;
}

static long backward(long i, const long *table)
{
    return table[3 - i] * 4096 + 512;
}

static long (*which(int n))(long, const long *)
{
    places[n][0] += n;
    return n ? forward : backward;
}

static long (*row(int n))[4]
{
    return &places[n];
}

static order *(*of_kind(const char *name))(int)
{
    return name ? which : 0;
}

VOID step_on(int fd, long *at, int n)
{
    long (*const table)[4] = row(n);
    unsigned char byte;
    if (pread(fd, &byte, 1, of_kind("x")(n)(*at, *table)) == 1)
        printf("%d\n", byte);
    ++*at;
}

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0)
        return 1;
    for (int n = 0; n < 2; n++)
        for (long at = 0; at < 4;)
            step_on(fd, &at, n);
    close(fd);
    return 0;
}
