/* A picture whose header says how long its rows are; they are read from the last to the first, one column.
 *
 * data: picture.bmp bytes 200000
 * run: picture.bmp 10
 * run: picture.bmp
 * expect: sliced
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#pragma pack(push, 1)
struct header {
    char magic[2];
    uint32_t bytes;
    uint16_t reserved[2];
    uint32_t offset, head;
    int32_t width, height;
};
#pragma pack(pop)

#define FAIL(code, ...)                                                                                                \
    do {                                                                                                               \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        exit(code);                                                                                                    \
    } while (0)

int main(int argc, char **argv)
{
    struct header header;
    int column = argc > 2 ? atoi(argv[2]) : 0;
    FILE *file;
    if (argc < 2 || (file = fopen(argv[1], "rb")) == NULL)
        FAIL(1, "cannot open it\n");
    if (fread(&header, sizeof header, 1, file) != 1)
        FAIL(2, "%s: no header\n", argv[1]);
    /* The data is made up: bring it into bounds. */
    long width = header.width & 0xfff, height = header.height & 0x3f, row = (width * 3 + 3) & ~3L;
    unsigned sum = 0;
    for (long y = height - 1; y >= 0; y--) {
        unsigned char pixel[3];
        if (fseek(file, 54 + y * row + column * 3L, SEEK_SET) != 0 || fread(pixel, 1, 3, file) < 3)
            continue;
        sum = sum * 7 + pixel[0] + pixel[1] * 2u + pixel[2] * 3u;
    }
    printf("%ld x %ld: %u\n", width, height, sum);
    fclose(file);
    return 0;
}
