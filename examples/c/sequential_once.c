/*
 * Sequential, once: checksums of files that are read from beginning to end, and never again.
 *
 * Strategy: priority -1. The blocks of the files are the first to go, so that what else the program, or the
 * machine, has in its cache survives (OSDI 1994, section 3, "Sequential").
 */
#include "example.h"

int main(int argc, char **argv)
{
    static char block[FORETELL_BLOCK];

    arguments(&argc, &argv, 1, "FILE...");
    for (int i = 1; i < argc; i++) {
        int fd = open_file(argv[i]);
        if (control)
            foretell_set_priority(fd, -1);

        uint64_t sum = CHECKSUM_START;
        size_t n;
        for (int64_t at = 0; (n = read_at(fd, block, sizeof block, at)) > 0; at += (int64_t)n)
            sum = checksum(sum, block, n);
        printf("%016llx  %s\n", (unsigned long long)sum, argv[i]);
        close(fd);
    }
    return 0;
}
