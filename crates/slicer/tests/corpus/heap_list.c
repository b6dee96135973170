/* A list of extents on the heap, built from a table, reversed, freed; some of it by realloc.
 *
 * data: data.bin bytes 100000
 * data: table.bin table 30 90000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct extent {
    uint32_t offset, length;
    struct extent *next;
};

static struct extent *reverse(struct extent *list)
{
    struct extent *reversed = NULL;
    while (list != NULL) {
        struct extent *next = list->next;
        list->next = reversed;
        reversed = list;
        list = next;
    }
    return reversed;
}

int main(void)
{
    uint32_t pair[2], *lengths = NULL;
    size_t count = 0, most = 0;
    struct extent *list = NULL;
    unsigned char buffer[256];
    unsigned sum = 0;
    FILE *table = fopen("table.bin", "rb");
    int fd = open("data.bin", O_RDONLY);
    if (table == NULL || fd < 0)
        return 1;
    while (fread(pair, sizeof pair, 1, table) == 1) {
        struct extent *extent = malloc(sizeof *extent);
        if (count == most) {
            most = most * 2 + 4;
            lengths = realloc(lengths, most * sizeof *lengths);
        }
        if (extent == NULL || lengths == NULL)
            return 1;
        lengths[count++] = pair[1] % 200 + 1;
        extent->offset = pair[0];
        extent->length = lengths[count - 1];
        extent->next = list;
        list = extent;
    }
    fclose(table);
    list = reverse(list);
    for (struct extent *extent = list; extent != NULL; extent = extent->next) {
        ssize_t got = pread(fd, buffer, extent->length, extent->offset);
        for (ssize_t i = 0; i < got; i++)
            sum = sum * 3 + buffer[i];
    }
    while (list != NULL) {
        struct extent *next = list->next;
        free(list);
        list = next;
    }
    free(lengths);
    close(fd);
    printf("%zu extents, %u\n", count, sum);
    return 0;
}
