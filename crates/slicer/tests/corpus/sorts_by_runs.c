/* Sorts a file of records by runs that it writes, and merges; the runs are read back from files.
 *
 * data: input.bin bytes 90000
 * data: run-2.tmp bytes 500
 * run: input.bin
 * run: absent.bin
 * expect: sliced
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD = 24, IN_A_RUN = 512, MOST_RUNS = 16 };

static char records[IN_A_RUN][RECORD];

static int compared(const void *left, const void *right)
{
    return memcmp(left, right, RECORD);
}

static void name_run(char *name, size_t room, int run)
{
    snprintf(name, room, "run-%d.tmp", run);
}

static void write_run(int run, size_t count)
{
    char name[32];
    FILE *to;
    qsort(records, count, RECORD, compared);
    name_run(name, sizeof name, run);
    remove(name);
    to = fopen(name, "wb");
    if (to == NULL || fwrite(records, RECORD, count, to) != count || fclose(to) != 0) {
        fputs("no room\n", stderr);
        exit(3);
    }
}

static uint32_t merge(int runs)
{
    static char first[MOST_RUNS][RECORD];
    FILE *from[MOST_RUNS];
    uint32_t sum = 0, place = 0;
    char name[32];
    for (int run = 0; run < runs; run++) {
        name_run(name, sizeof name, run);
        from[run] = fopen(name, "rb");
        if (from[run] != NULL && fread(first[run], RECORD, 1, from[run]) != 1) {
            fclose(from[run]);
            from[run] = NULL;
        }
    }
    for (;;) {
        int least = -1;
        for (int run = 0; run < runs; run++)
            if (from[run] != NULL && (least < 0 || memcmp(first[run], first[least], RECORD) < 0))
                least = run;
        if (least < 0)
            break;
        for (int i = 0; i < RECORD; i++)
            sum = sum * 31 + (unsigned char)first[least][i] + place++;
        if (fread(first[least], RECORD, 1, from[least]) != 1) {
            fclose(from[least]);
            from[least] = NULL;
        }
    }
    return sum;
}

int main(int argc, char **argv)
{
    int runs = 0;
    size_t count;
    FILE *input = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (input == NULL)
        return 1;
    while (runs < MOST_RUNS && (count = fread(records, RECORD, IN_A_RUN, input)) > 0)
        write_run(runs++, count);
    fclose(input);
    printf("%d runs, %u\n", runs, (unsigned)merge(runs));
    return 0;
}
