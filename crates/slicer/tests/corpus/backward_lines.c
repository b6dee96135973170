/* The lines of a file in reverse order, found a character at a time.
 *
 * data: text.txt words 20000
 * data: tiny.txt text one\ntwo\nthree
 * run: text.txt
 * run: tiny.txt text.txt
 * expect: sliced
 */
#include <stdio.h>

static void print_line(FILE *file, long from, long to)
{
    fseek(file, from, SEEK_SET);
    while (from++ < to)
        putchar(fgetc(file));
    putchar('\n');
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "r");
        if (!file) {
            perror(argv[i]);
            continue;
        }
        fseek(file, 0, SEEK_END);
        long end = ftell(file), at;
        for (at = end - 1; at >= 0; at--) {
            fseek(file, at, SEEK_SET);
            if (fgetc(file) == '\n') {
                if (at + 1 < end)
                    print_line(file, at + 1, end);
                end = at;
            }
        }
        print_line(file, 0, end);
        fclose(file);
    }
    return 0;
}
