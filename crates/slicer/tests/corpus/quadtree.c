/* A tree without pointers, walked recursively with pruning by coordinates.
 *
 * data: tree.bin bytes 174720
 * run: 3 2 9 12
 * run: 0 0 15 15
 * run: 7 7 7 7
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NODE 512
#define DEPTH 4

static int fd;
static int left, top, right, bottom;
static unsigned sum;
static int visited;

/* First node of a level: 1, 4, 16, ... nodes before it. */
static long level_begin(int level)
{
    long nodes = 0, size = 1;
    while (level-- > 0) {
        nodes += size;
        size *= 4;
    }
    return nodes;
}

static void walk(int level, int x, int y)
{
    unsigned char node[NODE];
    int span = 1 << (DEPTH - level);
    if (x * span > right || (x + 1) * span <= left || y * span > bottom || (y + 1) * span <= top)
        return;
    off_t at = (level_begin(level) + (long)y * (1 << level) + x) * NODE;
    if (pread(fd, node, sizeof node, at) != NODE)
        exit(3);
    visited++;
    for (int i = 0; i < NODE; i++)
        sum = sum * 33 + node[i];
    if (level == DEPTH)
        return;
    for (int child = 0; child < 4; child++)
        walk(level + 1, x * 2 + child % 2, y * 2 + child / 2);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    left = atoi(argv[1]);
    top = atoi(argv[2]);
    right = atoi(argv[3]);
    bottom = atoi(argv[4]);
    fd = open("tree.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    walk(0, 0, 0);
    close(fd);
    printf("%d nodes, %u\n", visited, sum);
    return 0;
}
