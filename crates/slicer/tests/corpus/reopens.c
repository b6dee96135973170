/* One stream for all files of a list, given another file each time; what is printed goes to a file as well.
 *
 * data: a.bin bytes 60000
 * data: b.bin bytes 9000
 * data: c.bin bytes 30000
 * data: list text b.bin\na.bin\nnowhere\n
 * run: a.bin
 * run: a.bin b.bin c.bin a.bin
 * run: a.bin nowhere
 * run: a.bin -o c.bin
 * run: c.bin -i list
 * expect: sliced
 */
#include <stdio.h>
#include <string.h>

static unsigned backward(FILE *file)
{
    unsigned char part[16];
    unsigned sum = 0;
    for (long at = 56000; at >= 0; at -= 8000)
        if (fseek(file, at, SEEK_SET) == 0 && fread(part, 1, sizeof part, file) > 0)
            sum = sum * 31 + part[0];
    return sum;
}

int main(int argc, char **argv)
{
    char name[64];
    FILE *file = fopen(argv[1], "r");
    if (file == NULL)
        return 1;
    printf("%u\n", backward(file));
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0) {
            if (freopen("out", "w", stderr) == NULL)
                return 3;
            fprintf(stderr, "noted\n");
        } else if (strcmp(argv[i], "-i") == 0) {
            if (freopen(argv[++i], "r", stdin) == NULL)
                return 4;
            while (fgets(name, sizeof name, stdin) != NULL) {
                name[strcspn(name, "\n")] = 0;
                FILE *other = fopen(name, "r");
                printf("%s %u\n", name, other != NULL ? backward(other) : 0);
                if (other != NULL)
                    fclose(other);
            }
        } else {
            if (freopen(argv[i], "r", file) == NULL)
                return 2;
            printf("%u\n", backward(file));
        }
    }
    fclose(file);
    return 0;
}
