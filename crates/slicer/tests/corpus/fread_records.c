/* Records of a stream in a computed order: fopen, fseek, fread, ftell, fclose.
 *
 * data: data.bin bytes 150000
 * run:
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>

struct record {
    unsigned key;
    unsigned char payload[1196];
};

int main(void)
{
    struct record record;
    FILE *file = fopen("data.bin", "rb");
    unsigned sum = 0;
    long records, number = 1;
    if (file == NULL) {
        fputs("no data\n", stderr);
        return EXIT_FAILURE;
    }
    fseek(file, 0, SEEK_END);
    records = ftell(file) / (long)sizeof record;
    for (long i = 0; i < records; i++) {
        number = (number * 37 + 11) % records;
        fseek(file, number * (long)sizeof record, SEEK_SET);
        if (fread(&record, sizeof record, 1, file) != 1)
            break;
        sum += record.key ^ record.payload[number % 1196];
    }
    fclose(file);
    printf("%ld records, %u\n", records, sum);
    return 0;
}
