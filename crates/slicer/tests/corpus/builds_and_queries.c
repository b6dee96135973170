/* Makes an index of a text file, or makes the old one anew, and looks lines up by what it has written.
 *
 * data: text.txt words 60000
 * data: text.idx bytes 5000
 * run: text.txt text.idx 7 333 12 800
 * run: text.txt new.idx 899 0
 * run: absent.txt text.idx 1
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>

static int build(const char *text, const char *index)
{
    char line[512];
    long at = 0;
    FILE *from = fopen(text, "r"), *to;
    if (from == NULL)
        return -1;
    to = fopen(index, "wb");
    if (to == NULL)
        exit(2);
    while (fgets(line, sizeof line, from) != NULL) {
        for (int shift = 0; shift < 32; shift += 8)
            putc((int)(at >> shift & 255), to);
        at = ftell(from);
    }
    fclose(from);
    return fclose(to);
}

static void look_up(const char *text, const char *index, long number)
{
    unsigned char place[4];
    char line[512];
    FILE *places = fopen(index, "rb"), *lines = fopen(text, "r");
    if (places != NULL && lines != NULL && fseek(places, number * 4, SEEK_SET) == 0 &&
        fread(place, sizeof place, 1, places) == 1) {
        long at = place[0] | place[1] << 8 | (long)place[2] << 16 | (long)place[3] << 24;
        if (fseek(lines, at, SEEK_SET) == 0 && fgets(line, sizeof line, lines) != NULL)
            printf("%ld: %s", number, line);
    }
    if (places != NULL)
        fclose(places);
    if (lines != NULL)
        fclose(lines);
}

int main(int argc, char **argv)
{
    if (argc < 3 || build(argv[1], argv[2]) != 0)
        return 1;
    for (int i = 3; i < argc; i++)
        look_up(argv[1], argv[2], atol(argv[i]));
    return 0;
}
