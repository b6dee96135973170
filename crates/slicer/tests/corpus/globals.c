/* Global arrays, sorted with qsort, decide the order of the reads.
 *
 * data: data.bin bytes 120000
 * data: wanted.txt numbers 50 110000
 * run:
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#define MOST 100

static struct wanted {
    long offset;
    int rank;
} wanted[MOST];
static int count;
static int fd = -1;
static char answers[MOST][16];
unsigned long checksum;

static int by_offset(const void *left, const void *right)
{
    const struct wanted *a = left, *b = right;
    return a->offset < b->offset ? 1 : a->offset > b->offset ? -1 : a->rank - b->rank;
}

static void load(const char *path)
{
    FILE *list = fopen(path, "r");
    if (list == NULL)
        exit(1);
    while (count < MOST && fscanf(list, "%ld", &wanted[count].offset) == 1) {
        wanted[count].rank = count;
        count++;
    }
    fclose(list);
}

static void answer(int i)
{
    if (pread(fd, answers[wanted[i].rank], 15, wanted[i].offset) > 0)
        for (int j = 0; j < 15; j++)
            checksum = checksum * 131 + (unsigned char)answers[wanted[i].rank][j];
}

int main(void)
{
    load("wanted.txt");
    qsort(wanted, (size_t)count, sizeof wanted[0], by_offset);
    fd = open("data.bin", O_RDONLY);
    for (int i = 0; i < count; i++)
        answer(i);
    close(fd);
    printf("%d answers, %lu\n", count, checksum);
    return 0;
}
