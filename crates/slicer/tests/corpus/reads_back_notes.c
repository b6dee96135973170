/* Notes in a file of its own what it found in others, and reads there where to look again.
 *
 * data: a.bin bytes 60000
 * data: b.bin bytes 50000
 * run: a.bin b.bin
 * run: b.bin
 * expect: begun
 */
#include <stdio.h>

int main(int argc, char **argv)
{
    unsigned char byte;
    long at;
    int number;
    FILE *notes = fopen("notes.txt", "w+");
    if (notes == NULL)
        return 1;
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "r");
        for (at = 48000; file != NULL && at >= 0; at -= 6000)
            if (fseek(file, at, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1)
                fprintf(notes, "%d %d\n", i, byte * 200);
        if (file != NULL)
            fclose(file);
    }
    rewind(notes);
    while (fscanf(notes, "%d %ld", &number, &at) == 2) {
        FILE *file = fopen(argv[number], "r");
        if (file != NULL && fseek(file, at, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1)
            printf("%d\n", byte);
        if (file != NULL)
            fclose(file);
    }
    fclose(notes);
    return 0;
}
