/* One way of reading a file that lies in memory, chosen by -DFORM=...: what does the translation of it cost? Each prints a
 * sum over what it has read, so that nothing is left out. benches/slice/warm.py builds and runs it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define fread16 1
#define getc_ 2
#define getc_unlocked_ 3
#define fgets_ 4
#define getline_ 5
#define fscanf_ 6
#define fseek_fread 7
#define pread4k 8
#define mmap_byte 9
#define mmap_word 10
#define files 11

int main(int argc, char **argv)
{
    unsigned long sum = 0;
    if (argc < 2)
        return 2;
#if FORM == pread4k || FORM == mmap_byte || FORM == mmap_word
    struct stat status;
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0)
        return 1;
    long size = (long)status.st_size;
#if FORM == pread4k
    static unsigned char block[4096];
    for (long at = 0; at + 4096 <= size; at += 4096)
        if (pread(fd, block, sizeof block, at) == sizeof block)
            sum = sum * 31 + block[17];
#elif FORM == mmap_byte
    const unsigned char *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return 1;
    for (long at = 0; at < size; at++)
        sum += bytes[at];
#else
    const uint64_t *words = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (words == MAP_FAILED)
        return 1;
    for (long at = 0; at < size / 8; at++)
        sum += words[at];
#endif
    close(fd);
#elif FORM == files
    /* FOLDER COUNT: files named 0, 1, ... */
    static unsigned char block[4096];
    long count = argc > 2 ? atol(argv[2]) : 0;
    for (long i = 0; i < count; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%ld", argv[1], i);
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            return 1;
        if (read(fd, block, sizeof block) > 0)
            sum = sum * 31 + block[17];
        close(fd);
    }
#else
    FILE *file = fopen(argv[1], "r");
    if (file == NULL)
        return 1;
#if FORM == fread16
    unsigned char record[16];
    while (fread(record, sizeof record, 1, file) == 1)
        sum = sum * 31 + record[3];
#elif FORM == getc_
    for (int byte; (byte = getc(file)) != EOF;)
        sum += (unsigned)byte;
#elif FORM == getc_unlocked_
    for (int byte; (byte = getc_unlocked(file)) != EOF;)
        sum += (unsigned)byte;
#elif FORM == fgets_
    char line[256];
    while (fgets(line, sizeof line, file) != NULL)
        sum = sum * 31 + (unsigned char)line[0];
#elif FORM == getline_
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0)
        sum = sum * 31 + (unsigned char)line[0];
    free(line);
#elif FORM == fscanf_
    int number;
    while (fscanf(file, "%d", &number) == 1)
        sum = sum * 31 + (unsigned)number;
#elif FORM == fseek_fread
    unsigned char record[16];
    for (unsigned i = 0, at = 1; i < 400000; i++) {
        at = at * 1103515245 + 12345;
        if (fseek(file, (long)(at >> 8) * 4, SEEK_SET) == 0 && fread(record, sizeof record, 1, file) == 1)
            sum = sum * 31 + record[3];
    }
#endif
    fclose(file);
#endif
    printf("%lu\n", sum);
    return 0;
}
