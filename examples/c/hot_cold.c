/*
 * Hot and cold files: every query reads the index, and then the part of the data that the index names.
 *
 * Strategy: two levels. The index has priority 1 and stays, the data have 0; both are read in the same order by
 * all queries, so MRU on both (glimpse in OSDI 1994, section 5.1).
 *
 * Query number q adds up all bytes of the index, q, and with that sum chooses one of 16 partitions of the data.
 */
#include "example.h"

#define PARTITIONS 16

/* Adds up the bytes of a part of a file. */
static uint64_t add_up(int fd, int64_t from, int64_t to)
{
    static unsigned char block[FORETELL_BLOCK];
    uint64_t sum = 0;
    while (from < to) {
        size_t want = to - from < (int64_t)sizeof block ? (size_t)(to - from) : sizeof block;
        size_t n = read_at(fd, block, want, from);
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++)
            sum += block[i];
        from += (int64_t)n;
    }
    return sum;
}

int main(int argc, char **argv)
{
    arguments(&argc, &argv, 3, "INDEX DATA QUERIES");
    int index = open_file(argv[1]), data = open_file(argv[2]);
    if (control) {
        foretell_set_priority(index, 1);
        foretell_set_priority(data, 0); /* only files that were named are under control */
        foretell_set_policy(1, FORETELL_MRU);
        foretell_set_policy(0, FORETELL_MRU);
    }
    int64_t part = size_of(data) / PARTITIONS;
    for (uint64_t query = 0; query < strtoull(argv[3], NULL, 10); query++) {
        uint64_t key = add_up(index, 0, size_of(index)) + query;
        int64_t chosen = (int64_t)(key % PARTITIONS);
        uint64_t found = add_up(data, chosen * part, (chosen + 1) * part);
        printf("query %llu: partition %lld, %llu\n", (unsigned long long)query, (long long)chosen,
               (unsigned long long)found);
    }
    return 0;
}
