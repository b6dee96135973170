/*
 * Access once: many small reads, but never the same data twice, as a link editor goes through object files.
 *
 * Strategy: as soon as the file pointer has left a block, the block gets the temporary priority -1 and is the
 * next to go. (A file's priority of -1 would not do where other parts of the file are still to be read: ldk in
 * OSDI 1994, section 5.1.)
 */
#include "example.h"

#define PIECE 512

int main(int argc, char **argv)
{
    char piece[PIECE];

    arguments(&argc, &argv, 1, "FILE...");
    for (int i = 1; i < argc; i++) {
        int fd = open_file(argv[i]);
        uint64_t sum = CHECKSUM_START;
        size_t n;
        for (int64_t at = 0; (n = read_at(fd, piece, sizeof piece, at)) > 0; at += (int64_t)n) {
            sum = checksum(sum, piece, n);
            int64_t next = at + (int64_t)n;
            if (control && (next % FORETELL_BLOCK == 0 || n < sizeof piece)) {
                uint64_t block = (uint64_t)at / FORETELL_BLOCK;
                foretell_set_temppri(fd, block, block, -1);
            }
        }
        printf("%016llx  %s\n", (unsigned long long)sum, argv[i]);
        close(fd);
    }
    return 0;
}
