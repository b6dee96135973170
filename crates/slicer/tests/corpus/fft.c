/* An out-of-core FFT: points in one file, read, changed and written in pieces of 4 KiB, a pass for each
 * factor; which pieces, never depends on the data. Cases FFT 256K and 512K of the paper, at any size.
 *
 * data: points.bin bytes 65536
 * run: points.bin 8192
 * expect: sliced
 * vanishes: twiddle
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE 512 /* points of 8 bytes in 4 KiB */

struct point {
    float re, im;
};

static int file;

static void load(struct point *points, long piece)
{
    if (lseek(file, piece * (long)sizeof(struct point) * PIECE, SEEK_SET) < 0 ||
        read(file, points, sizeof(struct point) * PIECE) < 0)
        exit(1);
}

static void store(const struct point *points, long piece)
{
    lseek(file, piece * (long)sizeof(struct point) * PIECE, SEEK_SET);
    if (write(file, points, sizeof(struct point) * PIECE) < 0)
        exit(1);
}

static void twiddle(struct point *a, struct point *b, double angle)
{
    float re = (float)cos(angle), im = (float)sin(angle);
    struct point t = {b->re * re - b->im * im, b->re * im + b->im * re};
    *b = (struct point){(a->re - t.re) / 2, (a->im - t.im) / 2};
    *a = (struct point){(a->re + t.re) / 2, (a->im + t.im) / 2};
}

static void sane(struct point *points)
{
    for (int i = 0; i < PIECE; i++) {
        if (!isfinite(points[i].re) || fabsf(points[i].re) > 1000.0f)
            points[i].re = (float)(i % 17);
        if (!isfinite(points[i].im) || fabsf(points[i].im) > 1000.0f)
            points[i].im = (float)(i % 13);
    }
}

int main(int argc, char **argv)
{
    static struct point low[PIECE], high[PIECE];
    double norm = 0;
    if (argc < 3)
        return 2;
    long points = atol(argv[2]), pieces = points / PIECE;
    file = open(argv[1], O_RDWR);
    if (file < 0)
        return 1;
    /* Within each piece. */
    for (long piece = 0; piece < pieces; piece++) {
        load(low, piece);
        sane(low);
        for (long span = 1; span < PIECE; span *= 2)
            for (long i = 0; i < PIECE; i++)
                if ((i & span) == 0)
                    twiddle(&low[i], &low[i + span], 3.14159265358979 * (double)(i % span) / (double)span);
        store(low, piece);
    }
    /* Between pieces. */
    for (long span = 1; span < pieces; span *= 2) {
        for (long piece = 0; piece < pieces; piece++) {
            if (piece & span)
                continue;
            load(low, piece);
            load(high, piece + span);
            for (long i = 0; i < PIECE; i++)
                twiddle(&low[i], &high[i], 3.14159265358979 * (double)i / (double)(span * PIECE));
            store(low, piece);
            store(high, piece + span);
        }
    }
    for (long piece = 0; piece < pieces; piece++) {
        load(low, piece);
        for (long i = 0; i < PIECE; i++)
            norm += fabs(low[i].re) + fabs(low[i].im);
    }
    close(file);
    printf("%ld points, %.3f\n", points, norm);
    return 0;
}
