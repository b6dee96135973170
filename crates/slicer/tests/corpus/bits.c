/* Offsets in bit-fields and unions, shifts and masks, chars as small numbers, unsigned wrap-around.
 *
 * data: data.bin bytes 65536
 * data: packed.bin bytes 256
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

union word {
    uint32_t all;
    uint8_t bytes[4];
    struct {
        unsigned page : 4, offset : 12, tag : 16;
    } parts;
};

int main(void)
{
    union word words[64], word;
    uint8_t value = 250;
    unsigned sum = 0;
    int packed = open("packed.bin", O_RDONLY), fd = open("data.bin", O_RDONLY);
    if (packed < 0 || fd < 0 || read(packed, words, sizeof words) != (ssize_t)sizeof words)
        return 1;
    close(packed);
    for (int i = 0; i < 64; i++) {
        unsigned char byte = 0;
        word = words[i];
        if (i % 3 == 0)
            word.bytes[1] ^= value++;
        off_t at = (off_t)word.parts.page << 12 | (word.parts.offset & 0xff0u);
        if (pread(fd, &byte, 1, at) == 1)
            sum = (sum << 3 | sum >> 29) ^ byte ^ word.parts.tag;
    }
    close(fd);
    printf("%u %u\n", sum, value);
    return 0;
}
