/* A structure that all units share holds the address of a variable that is defined before it and named after it.
 *
 * unit: copies_by_name_steps.c
 * data: data.bin bytes 200000
 * run: data.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct place {
    long at;
};

struct plan {
    struct place *first;
    long step;
};

extern struct plan plan;
long next(void);

struct place place;
struct plan plan = {.first = &place, .step = 4096};

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    int fd = open(argv[1], O_RDONLY);
    place.at = 190000 - argc;
    for (int i = 0; i < 20; i++) {
        if (pread(fd, &byte, 1, next()) == 1)
            sum = sum * 31 + byte;
        plan.step += 512;
    }
    close(fd);
    printf("%u\n", sum);
    return 0;
}
