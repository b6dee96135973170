/* Pointers that are constant themselves: what they lead to is changed all the same.
 *
 * data: data.bin bytes 100000
 * run: 1 2 3 4
 * run: 7
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct places {
    long *at;
    int count;
};

static int add(struct places *const all, long at)
{
    long *more = realloc(all->at, (size_t)(all->count + 1) * sizeof *more);
    if (!more)
        return 0;
    all->at = more;
    all->at[all->count++] = at;
    return 1;
}

static int begin(struct places *const all, int argc, char *const *const argv)
{
    all->at = NULL;
    all->count = 0;
    for (int i = argc - 1; i > 0; i--)
        if (!add(all, atoi(argv[i]) * 8192L))
            return 0;
    return 1;
}

static int count(const struct places *const all)
{
    return all->count;
}

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    struct places all;
    if (!begin(&all, argc, argv))
        return 1;
    int fd = open("data.bin", O_RDONLY);
    for (int i = 0; i < count(&all); i++)
        if (pread(fd, &byte, 1, all.at[i]) == 1)
            sum = sum * 31 + byte;
    close(fd);
    free(all.at);
    printf("%u\n", sum);
    return 0;
}
