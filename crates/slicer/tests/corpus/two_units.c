/* A program of two translation units: the offsets are computed in the other one.
 *
 * unit: two_units_layout.c
 * data: data.bin bytes 100000
 * run: 5
 * run: 40
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "two_units.h"

static int counter = 1; /* another one than the layout's */

int main(int argc, char **argv)
{
    struct place place = {0, 0};
    unsigned char bytes[300];
    unsigned sum = 0;
    int fd = open(layout_file, O_RDONLY);
    if (fd < 0)
        return 1;
    layout_begin(argc > 1 ? atoi(argv[1]) : 10);
    while (layout_next(&place)) {
        ssize_t got = pread(fd, bytes, place.length, place.offset);
        if (got > 0)
            sum = sum * 7 + bytes[got - 1];
        counter++;
    }
    close(fd);
    printf("%d %u\n", counter, sum);
    return 0;
}
