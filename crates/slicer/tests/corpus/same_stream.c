/* One variable is the stream of a note that is written, and then of a file that is read; a volume is opened to be
 * written where that is allowed, and is written only when asked to.
 *
 * data: volume.bin records 900
 * data: names.txt text volume.bin\n
 * run: volume.bin
 * run: absent.bin
 * expect: sliced
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_volume(const char *name, int writable)
{
    FILE *volume = NULL;
    if (writable)
        volume = fopen(name, "rb+");
    if (volume == NULL)
        volume = fopen(name, "rb");
    return volume;
}

static uint32_t next(FILE *volume, uint32_t at, int mark)
{
    unsigned char record[64];
    if (fseek(volume, (long)(at % 900) * 64, SEEK_SET) != 0 || fread(record, sizeof record, 1, volume) != 1)
        return 0;
    if (mark) {
        record[63] ^= 1;
        fseek(volume, -64, SEEK_CUR);
        fwrite(record, sizeof record, 1, volume);
    }
    return record[4] + record[5] * 256u;
}

int main(int argc, char **argv)
{
    char line[64] = "";
    FILE *stream = fopen("note.txt", "w");
    if (stream != NULL) {
        fprintf(stream, "%d arguments\n", argc);
        fclose(stream);
    }
    stream = fopen("names.txt", "r");
    if (stream == NULL || fgets(line, sizeof line, stream) == NULL)
        return 1;
    fclose(stream);
    line[strcspn(line, "\n")] = 0;
    FILE *volume = open_volume(argc > 1 ? argv[1] : line, argc > 2);
    if (volume == NULL)
        volume = open_volume(line, 0);
    if (volume == NULL)
        return 2;
    uint32_t at = 1, sum = 0;
    for (int i = 0; i < 40; i++) {
        at = next(volume, at, argc > 3);
        sum = sum * 31 + at;
    }
    fclose(volume);
    printf("%u\n", (unsigned)sum);
    return 0;
}
