/* Look-ups in a B-tree on disk, keys from a file. Inner pages are read by the slice, too; of the records,
 * which only the answer needs, none is.
 *
 * data: tree.bin btree 2000
 * data: keys.txt numbers 60 2100
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define FANOUT 31

/* A page: inner if `level` is above 0, and then child i holds keys below keys[i]. */
struct page {
    uint32_t level, count;
    uint32_t keys[FANOUT];
    uint32_t children[FANOUT + 1]; /* of a leaf: offset of the record */
    uint8_t unused[4096 - 8 - 4 * (2 * FANOUT + 1)];
};

struct record {
    uint32_t key;
    uint8_t text[252];
};

static int read_page(int fd, uint32_t number, struct page *page)
{
    return pread(fd, page, sizeof *page, (off_t)number * (off_t)sizeof *page) == (ssize_t)sizeof *page;
}

static long find(int fd, uint32_t root, uint32_t key)
{
    struct page page;
    uint32_t number = root;
    for (;;) {
        uint32_t i = 0;
        if (!read_page(fd, number, &page))
            return -1;
        while (i < page.count && (page.level > 0 ? key >= page.keys[i] : key > page.keys[i]))
            i++;
        if (page.level == 0)
            return i < page.count && page.keys[i] == key ? (long)page.children[i] : -1;
        number = page.children[i];
    }
}

int main(void)
{
    struct record record;
    uint32_t header[2];
    unsigned key, found = 0, missing = 0, sum = 0;
    int fd = open("tree.bin", O_RDONLY);
    FILE *keys = fopen("keys.txt", "r");
    if (fd < 0 || keys == NULL || pread(fd, header, sizeof header, 0) != (ssize_t)sizeof header)
        return 1;
    while (fscanf(keys, "%u", &key) == 1) {
        long offset = find(fd, header[1], key);
        if (offset < 0) {
            missing++;
            continue;
        }
        if (pread(fd, &record, sizeof record, offset) != (ssize_t)sizeof record || record.key != key) {
            printf("broken record for %u\n", key);
            return 3;
        }
        found++;
        for (unsigned i = 0; i < sizeof record.text; i++)
            sum = sum * 7 + record.text[i];
    }
    fclose(keys);
    close(fd);
    printf("%u found, %u missing, %u\n", found, missing, sum);
    return 0;
}
