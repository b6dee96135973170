/* Prints what it finds, remembers where it stands in what it has printed, moves to its end and back; none of that says
 * where it reads.
 *
 * data: records bytes 90000
 * run: records
 * expect: sliced
 */
#include <stdio.h>

int main(int argc, char **argv)
{
    fpos_t before;
    unsigned char head[2];
    unsigned sum = 0;
    FILE *file = fopen(argc > 1 ? argv[1] : "records", "r"), *tags = fopen("tags", "w");
    if (file == NULL || tags == NULL)
        return 1;
    fprintf(tags, "!head\n");
    for (int count = 0; count < 12; count++) {
        if (fgetpos(tags, &before) != 0 || fread(head, 1, sizeof head, file) != sizeof head)
            break;
        if (fprintf(tags, "%d\t%02x%02x\n", count, head[0], head[1]) < 0)
            break;
        if (head[0] % 3 == 0 && fsetpos(tags, &before) != 0)
            break;
        if (head[0] % 3 == 1 && fseek(tags, 0, SEEK_END) != 0)
            break;
        sum = sum * 31 + head[1];
        if (fseek(file, 4000 + head[0], SEEK_CUR) != 0)
            break;
    }
    fclose(tags);
    fclose(file);
    printf("%u\n", sum);
    return 0;
}
