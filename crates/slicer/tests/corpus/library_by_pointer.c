/* Functions of the library that are called through pointers: one tells the size of a file, others make memory and give it
 * back, compare, and return what they are given. Their results say where the next read goes.
 *
 * data: data.bin bytes 90000
 * data: names text 200
 * run: data.bin names
 * run: -L data.bin names
 * expect: sliced
 * vanishes: mix
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*status)(const char *restrict, struct stat *restrict) = lstat;
static void *(*make)(size_t) = malloc;

struct place {
    const char *name;
    char *(*last)(const char *, int);
    int (*compare)(const char *, const char *);
};

static unsigned sum;
static long passed;

static void pass(void *counter)
{
    *(long *)counter += 128;
}

static void (*const actions[])(void *) = { pass, free };

static void mix(const unsigned char *bytes, int count)
{
    for (int i = 0; i < count; i++)
        sum = sum * 31 + bytes[i];
}

int main(int argc, char **argv)
{
    struct place place = { argv[argc - 2], strrchr, strcmp };
    if (argc > 3 && place.compare(argv[1], "-L") == 0)
        status = stat;
    struct stat of;
    if (status(place.name, &of) != 0)
        return 1;
    int fd = open(place.name, O_RDONLY);
    long *steps = make(8 * sizeof *steps);
    char *dot = place.last(place.name, '.');
    for (int i = 0; i < 8; i++)
        steps[i] = of.st_size - (i + 1) * 8192L - (dot ? dot - place.name : 0);
    for (int i = 0; i < 8; i++) {
        unsigned char block[100];
        void *given = i % 3 == 2 ? malloc(10) : &passed;
        actions[i % 3 == 2](given);
        ssize_t got = pread(fd, block, sizeof block, steps[i] - passed);
        if (got > 0)
            mix(block, (int)got);
    }
    free(steps);
    close(fd);
    printf("%u\n", sum);
    return 0;
}
