/* What fails comes back to main by longjmp, which says so and goes on with the next file.
 *
 * data: good.bin records 100
 * data: more.bin records 50
 * run: good.bin
 * run: good.bin more.bin
 * run: good.bin more.bin absent.bin
 * expect: sliced
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>

static jmp_buf failed;

static FILE *open_it(const char *name)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        longjmp(failed, 1);
    return file;
}

static unsigned long read_backwards(const char *name)
{
    unsigned char record[64];
    unsigned long sum = 0;
    FILE *file = open_it(name);
    fseek(file, 0, SEEK_END);
    for (long at = ftell(file) - (long)sizeof record; at >= 0; at -= (long)sizeof record) {
        fseek(file, at, SEEK_SET);
        if (fread(record, sizeof record, 1, file) != 1)
            longjmp(failed, 2);
        sum = sum * 31 + record[0];
    }
    fclose(file);
    return sum;
}

int main(int argc, char **argv)
{
    static int i, broken;
    for (i = 1; i < argc; i++) {
        if (setjmp(failed) == 0) {
            printf("%s: %lu\n", argv[i], read_backwards(argv[i]));
        } else {
            broken++;
            printf("%s: cannot be read\n", argv[i]);
        }
    }
    return broken;
}
