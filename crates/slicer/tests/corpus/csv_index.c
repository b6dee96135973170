/* A table in text names files and columns: strtok and strtol take the lines apart.
 *
 * data: index.csv text # name,offset,count\na.bin,100,5\nb.bin,40000,3\nabsent.bin,1,1\n\na.bin,9000,0x10\n
 * data: a.bin bytes 60000
 * data: b.bin bytes 50000
 * run: index.csv
 * expect: sliced in a process
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    char line[200];
    FILE *index = fopen(argc > 1 ? argv[1] : "index.csv", "r");
    if (index == NULL)
        return 1;
    while (fgets(line, sizeof line, index)) {
        char *begin = line, *end;
        while (isspace((unsigned char)*begin))
            begin++;
        if (*begin == 0 || *begin == '#')
            continue;
        char *name = strtok(begin, ","), *offset = strtok(NULL, ","), *count = strtok(NULL, "\n");
        if (!name || !offset || !count)
            continue;
        long at = strtol(offset, &end, 10), items = strtol(count, NULL, 0);
        if (*end)
            return 2;
        FILE *file = fopen(name, "rb");
        if (file == NULL) {
            printf("%s: missing\n", name);
            continue;
        }
        unsigned sum = 0;
        for (long i = 0; i < items; i++) {
            unsigned short value;
            if (fseek(file, at + i * 4096, SEEK_SET) || fread(&value, sizeof value, 1, file) != 1)
                break;
            sum += value;
        }
        printf("%s %ld: %u\n", name, at, sum);
        fclose(file);
    }
    fclose(index);
    return 0;
}
