/* Much computation on the data, none of it needed to know what is read next: the slice must be without it.
 *
 * data: data.bin bytes 65536
 * run:
 * expect: sliced
 * vanishes: churn
 * vanishes: smooth
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POINTS 512

static double field[POINTS], next[POINTS];

static unsigned churn(unsigned state, const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        for (int round = 0; round < 16; round++)
            state = (state << 5 | state >> 27) ^ (data[i] * 2654435761u + (unsigned)round);
    return state;
}

static double smooth(void)
{
    double residue = 0;
    for (int i = 1; i < POINTS - 1; i++)
        next[i] = (field[i - 1] + 2 * field[i] + field[i + 1]) / 4;
    for (int i = 0; i < POINTS; i++)
        residue += fabs(next[i] - field[i]);
    memcpy(field, next, sizeof field);
    return residue;
}

int main(void)
{
    unsigned char block[4096];
    unsigned state = 1;
    double residue = 0;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    for (int block_number = 15; block_number >= 0; block_number -= 1) {
        if (pread(fd, block, sizeof block, (off_t)block_number * 4096) <= 0)
            break;
        state = churn(state, block, sizeof block);
        for (int i = 0; i < POINTS; i++)
            field[i] += block[i * 8] / 255.0;
        residue += smooth();
    }
    close(fd);
    printf("%08x %.6f\n", state, residue);
    return 0;
}
