/*
 * Cyclic scan: queries that each read the same file from beginning to end, as a cross-referencer reads its
 * database, or a simulator its trace. Counts how often each byte occurs, a pass for each.
 *
 * Strategy: MRU on the level of the file. Under LRU a file that is larger than the cache is fetched anew in
 * each pass; under MRU most of what was kept is still there when its turn comes (cs1 and din in OSDI 1994,
 * section 5.1).
 */
#include "example.h"

int main(int argc, char **argv)
{
    static unsigned char block[FORETELL_BLOCK];

    arguments(&argc, &argv, 2, "FILE BYTES (each byte of the text BYTES is a query)");
    int fd = open_file(argv[1]);
    if (control) {
        foretell_set_priority(fd, 0);
        foretell_set_policy(0, FORETELL_MRU);
    }
    for (const char *query = argv[2]; *query != '\0'; query++) {
        uint64_t found = 0;
        size_t n;
        for (int64_t at = 0; (n = read_at(fd, block, sizeof block, at)) > 0; at += (int64_t)n)
            for (size_t i = 0; i < n; i++)
                found += block[i] == (unsigned char)*query;
        printf("'%c' %llu times\n", *query, (unsigned long long)found);
    }
    return 0;
}
