/* An archive of members with a header each: a size in text, and what is to be skipped follows from it.
 *
 * data: list.txt text hello\n
 * data: made.ar text a/              7         \nabcdefgbb/             12        \nABCDEFGHIJKLc/              0         \n
 * run: made.ar
 * run: list.txt
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member {
    char name[16], size[10], end[1];
};

static long size_of(const struct member *member)
{
    char text[11];
    memcpy(text, member->size, 10);
    text[10] = '\0';
    return strtol(text, NULL, 10);
}

int main(int argc, char **argv)
{
    struct member member;
    int count = 0;
    FILE *archive = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (archive == NULL)
        return 1;
    while (fread(&member, sizeof member, 1, archive) == 1 && member.end[0] == '\n') {
        long size = size_of(&member);
        printf("%.16s %ld\n", member.name, size);
        if (size < 0 || fseek(archive, size, SEEK_CUR) != 0)
            break;
        count++;
    }
    fclose(archive);
    printf("%d members\n", count);
    return count == 0;
}
