/* A matrix stored by rows, read by columns and by diagonals, with offsets from macros and typedefs.
 *
 * data: matrix.bin bytes 131072
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

typedef int32_t element;
#define N 128
#define TILE 16
#define AT(row, column) ((off_t)(((row) * (long)N + (column)) * (long)sizeof(element)))
#define READ(fd, buffer, count, row, column) \
    (pread((fd), (buffer), (count) * sizeof(element), AT(row, column)) == (ssize_t)((count) * sizeof(element)))

int main(void)
{
    element tile[TILE], one;
    uint32_t sum = 0;
    int fd = open("matrix.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    for (int column = 0; column + TILE <= N; column += TILE)
        for (int row = 0; row < N; row += 8)
            if (READ(fd, tile, TILE, row, column))
                for (int i = 0; i < TILE; i++)
                    sum += (uint32_t)tile[i] * (uint32_t)(row + i);
    for (int i = N - 1; i >= 0; --i)
        if (READ(fd, &one, 1, i, N - 1 - i))
            sum ^= (uint32_t)one;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
