/* Byte by byte: words are counted in one pass, then the file is rewound for a second.
 *
 * data: text.txt words 30000
 * run: text.txt
 * expect: sliced
 */
#include <ctype.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    FILE *file = fopen(argc > 1 ? argv[1] : "text.txt", "r");
    int c, inside = 0;
    unsigned long words = 0, bytes = 0, vowels = 0;
    if (file == NULL)
        return 1;
    while ((c = getc(file)) != EOF) {
        bytes++;
        if (isspace(c))
            inside = 0;
        else if (!inside) {
            inside = 1;
            words++;
        }
    }
    rewind(file);
    while ((c = getc_unlocked(file)) != EOF)
        vowels += c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u';
    fclose(file);
    printf("%lu bytes, %lu words, %lu vowels\n", bytes, words, vowels);
    return 0;
}
