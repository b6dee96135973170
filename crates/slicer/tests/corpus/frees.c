/* Follows a chain of records, with a buffer from the heap for each, and a directory opened for each.
 *
 * data: chain.bin chain 40 4096
 * run: chain.bin
 * says: foretell_slice_free(record)
 * expect: sliced
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    uint64_t at = 0;
    unsigned sum = 0;
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    for (int i = 0; i < 40 && fd >= 0; i++) {
        uint64_t *record = malloc(4096);
        if (record == NULL || pread(fd, record, 4096, (off_t)(at % 131072)) < 8) {
            free(record);
            break;
        }
        at = record[0];
        sum = sum * 31 + (unsigned)record[1];
        free(record);
    }
    close(fd);
    printf("%u\n", sum);
    return 0;
}
