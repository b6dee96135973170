/* Reads a file for each word of standard input; of the rest of each line nothing is needed.
 *
 * data: names.txt text a.bin first\nb.bin  second, and more\nabsent.bin\nc.bin
 * data: a.bin bytes 70000
 * data: b.bin bytes 9000
 * data: c.bin bytes 30
 * stdin: names.txt
 * run:
 * says: foretell_told_getc(
 * says: foretell_told_fgets(
 * expect: sliced
 */
#include <stdio.h>

static int next_word(char *word, int room)
{
    int length = 0, letter;
    while (length < room - 1 && (letter = getchar()) != EOF && letter > ' ')
        word[length++] = (char)letter;
    word[length] = '\0';
    if (length > 0 && letter == ' ') {
        char rest[40];
        if (fgets(rest, sizeof rest, stdin) == NULL)
            return 0;
    }
    return length;
}

int main(void)
{
    char name[32];
    while (next_word(name, sizeof name) > 0) {
        unsigned char byte = 0;
        FILE *file = fopen(name, "rb");
        if (file == NULL) {
            printf("%s: missing\n", name);
            continue;
        }
        for (long at = 60000; at >= 0; at -= 20000)
            if (fseek(file, at, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1)
                printf("%s: %d\n", name, byte);
        fclose(file);
    }
    return 0;
}
