/* feof as loop condition, clearerr, ungetc, ftell, fgets with lines longer than the buffer.
 *
 * data: text.txt words 12000
 * run:
 * expect: sliced
 */
#include <stdio.h>
#include <string.h>

int main(void)
{
    char line[40];
    unsigned long lines = 0, whole = 0, blocks = 0, spaces = 0;
    FILE *file = fopen("text.txt", "r");
    if (file == NULL)
        return 1;
    while (!feof(file)) {
        if (fgets(line, sizeof line, file) == NULL)
            break;
        lines++;
        if (strchr(line, '\n') != NULL)
            whole++;
    }
    clearerr(file);
    fseek(file, ftell(file) / 2, SEEK_SET);
    while (!feof(file) && fread(line, 1, sizeof line, file) > 0)
        blocks++;
    rewind(file);
    for (;;) {
        int c = getc(file);
        if (c == EOF)
            break;
        if (c == ' ') {
            spaces++;
            c = getc(file);
            if (c != EOF)
                ungetc(c, file);
        }
    }
    fclose(file);
    printf("%lu %lu %lu %lu\n", lines, whole, blocks, spaces);
    return 0;
}
