/* Tables with fewer initial values than places: of functions, which are called through them, of numbers, and of pointers to
 * what is changed later. A function that ends the program is among those that are called through a pointer.
 *
 * data: a.bin bytes 300000
 * data: b.bin bytes 4000
 * run: a.bin
 * run: a.bin 17
 * run: b.bin
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void state(void);

struct operation {
    const char *name;
    long (*place)(long);
};

struct level {
    int count;
    struct operation operations[5];
};

static int fd, more, steps;
static unsigned sum;
static long first = 8192, second = 512;

static long up(long at)
{
    return at * 4096;
}

static long down(long at)
{
    return (70 - at) * 4096;
}

static const struct level levels[4] = {{1, {{"up", up}}}, {2, {{"down", down}, {"up", up}}}};
static long *const offsets[3] = {&first, &second};
/** Which offsets are used in turn. */
static const short turns[64] = {3, 1, 2};

static void look(void)
{
    unsigned char byte;
    const struct level *level = &levels[steps % 2];
    long at = level->operations[steps % level->count].place(steps) + *offsets[turns[steps % 8] % 2];
    if (pread(fd, &byte, 1, at) == 1)
        sum = sum * 31 + byte;
    first += 512;
}

static void done(void)
{
    more = 0;
}

static state *const states[3][8] = {{look, look, look, done}, {look, look, look, look, abort, done}};

static void finish(int code)
{
    printf("%u\n", sum);
    fflush(stdout);
    if (code > 2)
        exit(code);
}

int main(int argc, char **argv)
{
    void (*const leave[2])(int) = {finish, exit};
    more = argc > 1 ? 1 : 0;
    fd = more ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0)
        leave[1](3);
    int last = argc > 2 ? atoi(argv[2]) : 40;
    while (more) {
        states[0][steps >= last ? 3 : steps % 3]();
        steps++;
    }
    leave[0](last == 17 ? 4 : 1);
    close(fd);
    return 0;
}
