/*
 * Index scan: reads the tuples of a table in the order of an index, which is not the order in which they lie.
 *
 * Nothing but the index knows what comes next, and the program has read it: it discloses the tuples' blocks
 * before it reads them, so that they are fetched ahead, in batches and in the order in which the disk likes
 * them (Cao et al. 1996, section 4.1.2, BlockList). The index itself has priority 1: other queries will read it,
 * too (pjn in OSDI 1994, section 5.1).
 *
 * The index is a sequence of offsets into the table, 8 bytes each, and a tuple has 256 bytes.
 */
#include "example.h"

#define TUPLE 256
#define AHEAD 4096 /* tuples disclosed and not yet read */
#define AT_A_TIME 1024

int main(int argc, char **argv)
{
    char tuple[TUPLE];

    arguments(&argc, &argv, 2, "INDEX TABLE");
    int index = open_file(argv[1]), table = open_file(argv[2]);
    if (control)
        foretell_set_priority(index, 1);

    size_t size = (size_t)size_of(index), count = size / sizeof(uint64_t), disclosed = 0;
    uint64_t *offsets = malloc(size);
    struct foretell_chunk *list = calloc(count, sizeof *list);
    if (offsets == NULL || list == NULL)
        die("malloc");
    read_at(index, offsets, size, 0);
    for (size_t i = 0; i < count; i++)
        list[i] = (struct foretell_chunk){ table, (int64_t)offsets[i], (int64_t)offsets[i] + TUPLE };

    uint64_t sum = CHECKSUM_START;
    for (size_t i = 0; i < count; i++) {
        if (control && i % AT_A_TIME == 0 && disclosed < count) {
            size_t until = i + AHEAD < count ? i + AHEAD : count;
            ssize_t taken = foretell_block_list(list + disclosed, until - disclosed);
            disclosed += taken > 0 ? (size_t)taken : 0;
        }
        sum = checksum(sum, tuple, read_at(table, tuple, sizeof tuple, (int64_t)offsets[i]));
    }
    printf("%zu tuples, %016llx\n", count, (unsigned long long)sum);
    free(list);
    free(offsets);
    return 0;
}
