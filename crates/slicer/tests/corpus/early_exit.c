/* The program ends in the middle, in a function, with a code that depends on data.
 *
 * data: data.bin bytes 50000
 * run:
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>

static void at_end(void)
{
    printf("end\n");
}

static void check(int value, int limit)
{
    if (value > limit) {
        printf("found %d\n", value);
        exit(value % 50 + 1);
    }
}

int main(void)
{
    unsigned char bytes[1000];
    FILE *file = fopen("data.bin", "rb");
    atexit(at_end);
    if (file == NULL)
        return 99;
    for (int i = 49; i >= 0; i--) {
        fseek(file, i * 1000L, SEEK_SET);
        if (fread(bytes, 1, sizeof bytes, file) != sizeof bytes)
            return 98;
        check(bytes[i * 7 % 1000], 249 - i / 10);
    }
    fclose(file);
    return 0;
}
