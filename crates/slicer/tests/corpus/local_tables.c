/* Static variables of functions whose initial values name other ones, functions among them; and tables of a type without a
 * name.
 *
 * data: data.bin bytes 90000
 * run: data.bin forward
 * run: data.bin backward
 * run: data.bin neither
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned sum;

static int forward(int fd, long step)
{
    unsigned char byte;
    for (long at = 0; pread(fd, &byte, 1, at) == 1; at += step)
        sum = sum * 31 + byte;
    return 1;
}

static int backward(int fd, long step)
{
    unsigned char byte;
    for (long at = 80000; at >= 0 && pread(fd, &byte, 1, at) == 1; at -= step)
        sum = sum * 37 + byte;
    return 2;
}

static long step_of(const char *word)
{
    static long small[] = { 4096, 8192 };
    static long *steps = small;
    static long **where = &steps;
    return (*where)[strlen(word) % 2];
}

int main(int argc, char **argv)
{
    static char usual[] = "forward";
    static const struct {
        const char *name;
        int (*run)(int, long);
    } ways[] = { { usual, forward }, { "backward", backward } };
    struct {
        int (*const first)(int, long);
        int number;
    } ends = { backward, 7 };
    int fd = open(argv[1], O_RDONLY), done = 0;
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc > 2 && strcmp(argv[2], ways[i].name) == 0)
            done = ways[i].run(fd, step_of(argv[2]));
    if (done == 0)
        done = ends.first(fd, 20000) + ends.number;
    close(fd);
    printf("%d %u\n", done, sum);
    return 0;
}
