/* One function opens what is read and what is written, and the mode is its argument. What is printed, and where to, does not
 * matter; what is read says where to go on.
 *
 * data: index.bin btree 60
 * data: other.bin btree 40
 * run: out.txt index.bin other.bin
 * run: - other.bin
 * run: out.txt absent.bin index.bin
 * expect: sliced
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *opened(const char *name, const char *mode)
{
    FILE *file = fopen(name, mode);
    if (file == NULL)
        printf("cannot open %s\n", name);
    return file;
}

static void report(FILE *out, unsigned sum, const char *name)
{
    char line[100];
    snprintf(line, sizeof line, "%s has %u", name, sum);
    fputs(line, out);
}

int main(int argc, char **argv)
{
    unsigned char block[64];
    FILE *out = strcmp(argv[1], "-") == 0 ? stdout : opened(argv[1], "w");
    for (int i = 2; i < argc; i++) {
        FILE *in = opened(argv[i], "r");
        unsigned sum = 0;
        if (in == NULL)
            continue;
        fseek(in, 0, SEEK_END);
        long size = ftell(in), at = 0;
        for (int n = 0; n < 50 && at + 64 <= size; n++) {
            fseek(in, at, SEEK_SET);
            if (fread(block, 1, sizeof block, in) != sizeof block)
                break;
            sum = sum * 31 + block[7];
            fprintf(out, "%ld ", at);
            if (fputc(block[9], out) == EOF)
                return 1;
            at = (at + 4096 * (1 + block[8] % 5)) / 64 * 64;
        }
        report(out, sum, argv[i]);
        if (fwrite(block, 1, 8, out) != 8)
            return 2;
        fclose(in);
    }
    return fclose(out) != 0;
}
