/* Binary search in a sorted file of records: each step depends on what the last one read.
 *
 * data: sorted.bin records 1500
 * data: keys.txt numbers 30 6000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

struct record {
    uint32_t key;
    uint8_t rest[60];
};

static long search(int fd, long count, uint32_t key)
{
    struct record record;
    long low = 0, high = count;
    while (low < high) {
        long middle = low + (high - low) / 2;
        if (pread(fd, &record, sizeof record, middle * (long)sizeof record) != (ssize_t)sizeof record)
            return -2;
        if (record.key == key)
            return middle;
        if (record.key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

int main(void)
{
    unsigned key;
    int fd = open("sorted.bin", O_RDONLY);
    FILE *keys = fopen("keys.txt", "r");
    if (fd < 0 || keys == NULL)
        return 1;
    long count = lseek(fd, 0, SEEK_END) / (long)sizeof(struct record);
    while (fscanf(keys, "%u", &key) == 1)
        printf("%u: %ld\n", key, search(fd, count, key));
    fclose(keys);
    close(fd);
    return 0;
}
