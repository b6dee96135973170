/* Volume visualization by ray casting, out of core: a volume of bytes in cubic blocks (16 or 32 a side), one
 * read a block, in the order in which the rays of an orthographic or a slanted view meet them. Blocks are
 * kept in a small table. Cases Vol Vis 1 to 4 of the paper, at any size.
 *
 * data: volume.bin bytes 262144
 * run: volume.bin 64 16 0
 * run: volume.bin 64 16 1
 * run: volume.bin 64 32 0
 * run: volume.bin 64 32 1
 * expect: sliced
 * vanishes: shade
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT 64

static long side, block_side, blocks_a_side, block_bytes;
static int volume = -1;
static unsigned char *kept[KEPT];
static long kept_number[KEPT];
static long next_victim;
static unsigned long reads;

static const unsigned char *block(long number)
{
    for (long i = 0; i < KEPT; i++)
        if (kept_number[i] == number)
            return kept[i];
    long slot = next_victim++ % KEPT;
    kept_number[slot] = number;
    if (lseek(volume, (off_t)number * block_bytes, SEEK_SET) < 0 ||
        read(volume, kept[slot], (size_t)block_bytes) != block_bytes) {
        fprintf(stderr, "block %ld cannot be read\n", number);
        exit(1);
    }
    reads++;
    return kept[slot];
}

static double shade(double density, double depth, double seen)
{
    double light = pow(density / 255.0, 1.5) * exp(-depth / 64.0);
    return seen + (1 - seen) * light * 0.05;
}

/* One block of the image: all rays through the blocks whose projection begins at (bx, by). */
static double cast(long bx, long by, int slanted)
{
    double image = 0;
    for (long bz = 0; bz < blocks_a_side; bz++) {
        long x = slanted ? (bx + bz) % blocks_a_side : bx;
        long y = slanted ? (by + bz * 2 / 3) % blocks_a_side : by;
        const unsigned char *voxels = block((bz * blocks_a_side + y) * blocks_a_side + x);
        for (long ray = 0; ray < block_side * block_side; ray++) {
            double seen = 0;
            for (long depth = 0; depth < block_side; depth += 4)
                seen = shade(voxels[depth * block_side * block_side + ray], (double)(bz * block_side + depth), seen);
            image += seen;
        }
    }
    return image;
}

int main(int argc, char **argv)
{
    double image = 0;
    if (argc < 5) {
        fprintf(stderr, "usage: %s VOLUME SIDE BLOCK-SIDE SLANTED\n", argv[0]);
        return 2;
    }
    side = atol(argv[2]);
    block_side = atol(argv[3]);
    int slanted = atoi(argv[4]);
    blocks_a_side = side / block_side;
    block_bytes = block_side * block_side * block_side;
    volume = open(argv[1], O_RDONLY);
    if (volume < 0) {
        perror(argv[1]);
        return 1;
    }
    for (int i = 0; i < KEPT; i++) {
        kept[i] = malloc((size_t)block_bytes);
        kept_number[i] = -1;
        if (kept[i] == NULL)
            return 1;
    }
    for (long by = 0; by < blocks_a_side; by++)
        for (long bx = 0; bx < blocks_a_side; bx++)
            image += cast(bx, by, slanted);
    for (int i = 0; i < KEPT; i++)
        free(kept[i]);
    close(volume);
    printf("%lu blocks, %.6f\n", reads, image);
    return 0;
}
