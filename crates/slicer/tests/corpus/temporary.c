/* Notes in a file that it makes for the time being what it found in others, and reads that back at the end.
 *
 * data: a.bin bytes 60000
 * data: b.bin bytes 50000
 * run: a.bin b.bin
 * run: b.bin
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *made(char *name)
{
    int fd = mkstemp(name);
    FILE *stream = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (stream == NULL) {
        fputs("no temporary file\n", stderr);
        exit(2);
    }
    return stream;
}

int main(int argc, char **argv)
{
    char name[] = "noted-XXXXXX", line[64];
    unsigned char byte;
    FILE *notes = made(name);
    unlink(name);
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "r");
        for (long at = 48000; file != NULL && at >= 0; at -= 6000)
            if (fseek(file, at, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1)
                fprintf(notes, "%ld %d\n", at, byte);
        if (file != NULL)
            fclose(file);
    }
    rewind(notes);
    while (fgets(line, sizeof line, notes) != NULL)
        fputs(line, stdout);
    fclose(notes);
    return 0;
}
