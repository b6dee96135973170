/* Reads a file for each name that comes in on standard input, as soon as the name is there.
 *
 * data: names.txt text a.bin\nb.bin\n\nabsent.bin\nc.bin\na.bin
 * data: a.bin bytes 70000
 * data: b.bin bytes 9000
 * data: c.bin bytes 30
 * stdin: names.txt
 * run:
 * says: foretell_told_getdelim(
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned sum_of(FILE *file)
{
    unsigned sum = 0;
    unsigned char byte;
    for (long at = 64000; at >= 0; at -= 8000)
        if (fseek(file, at, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1)
            sum = sum * 31 + byte;
    return sum;
}

int main(void)
{
    char *name = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&name, &room, stdin)) > 0) {
        FILE *file;
        if (name[length - 1] == '\n')
            name[length - 1] = '\0';
        file = fopen(name, "rb");
        if (file == NULL) {
            printf("%s: missing\n", name);
            continue;
        }
        printf("%s: %u\n", name, sum_of(file));
        fclose(file);
    }
    free(name);
    return 0;
}
