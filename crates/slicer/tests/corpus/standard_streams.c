/* One table of streams for all: some are files, others the standard ones. Whether a call reads a file, asks one, or
 * prints to standard output is found out when the slice runs.
 *
 * data: a.bin bytes 60000
 * data: b.bin bytes 50000
 * run: a.bin b.bin
 * run: a.bin = b.bin
 * expect: begun
 */
#include <stdio.h>
#include <string.h>

static FILE *streams[4];

static unsigned sum_of(FILE *file)
{
    unsigned char part[16];
    unsigned sum = 0;
    for (long at = 48000; at >= 0; at -= 8000)
        if (fseek(file, at, SEEK_SET) == 0 && fread(part, 1, sizeof part, file) == sizeof part)
            sum = sum * 31 + part[3];
    return ferror(file) ? 1 : sum;
}

int main(int argc, char **argv)
{
    streams[0] = stdin;
    streams[1] = stderr;
    for (int i = 1; i < argc; i++) {
        int number = strcmp(argv[i], "=") == 0 ? 1 : 2;
        if (number == 2)
            streams[2] = fopen(argv[i], "r");
        if (streams[2] == NULL || fprintf(streams[3 - number], "%s", "") < 0)
            fputs("not written\n", stdout);
        printf("%u\n", sum_of(streams[number]));
        if (number == 2)
            fclose(streams[2]);
        streams[2] = NULL;
    }
    return 0;
}
