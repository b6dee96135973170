/* Binary search of keys in a file that is mapped.
 *
 * data: table.bin records 3000
 * data: keys.txt numbers 40 9000
 * run: table.bin keys.txt
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct record {
    uint32_t key;
    unsigned char rest[60];
};

static const struct record *find(const struct record *records, size_t count, uint32_t key)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (records[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && records[low].key == key ? &records[low] : NULL;
}

int main(int argc, char **argv)
{
    struct stat status;
    unsigned key, found = 0, sum = 0;
    if (argc < 3)
        return 2;
    int fd = open(argv[1], O_RDONLY);
    FILE *keys = fopen(argv[2], "r");
    if (fd < 0 || keys == NULL || fstat(fd, &status) < 0)
        return 1;
    const struct record *records = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (records == MAP_FAILED)
        return 1;
    while (fscanf(keys, "%u", &key) == 1) {
        const struct record *record = find(records, (size_t)status.st_size / sizeof *records, key);
        if (record != NULL) {
            found++;
            sum = sum * 31 + record->rest[9];
        }
    }
    fclose(keys);
    printf("%u found, %u\n", found, sum);
    return 0;
}
