/* Remembers where records begin, and reads them again from the last one on.
 *
 * data: records bytes 90000
 * run: records
 * expect: sliced
 */
#include <stdio.h>

#define MOST 12

int main(int argc, char **argv)
{
    fpos_t begins[MOST], end;
    unsigned char head[2], part[64];
    unsigned sum = 0;
    int count = 0;
    FILE *file = fopen(argc > 1 ? argv[1] : "records", "r");
    if (file == NULL)
        return 1;
    while (count < MOST && fgetpos(file, &begins[count]) == 0 && fread(head, 1, sizeof head, file) == sizeof head) {
        count++;
        if (fseek(file, 4000 + head[0], SEEK_CUR) != 0)
            break;
    }
    fgetpos(file, &end);
    while (count-- > 0) {
        if (fsetpos(file, &begins[count]) != 0)
            return 2;
        sum = sum * 31 + (unsigned)fread(part, 1, sizeof part, file) + part[5];
    }
    if (fsetpos(file, &end) == 0)
        sum += (unsigned)fread(part, 1, sizeof part, file);
    printf("%u %ld\n", sum, ftell(file));
    fclose(file);
    return 0;
}
