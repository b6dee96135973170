/* Lines of commands from standard input: "seek N", "read N", "skip N".
 *
 * data: data.bin bytes 60000
 * data: commands.txt text read 100\nseek 40000\nread 5000\nskip 900\nread 3\nbogus\nseek 10\nread 9\n
 * stdin: commands.txt
 * run:
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static char line[200], data[8192];
    FILE *file = fopen("data.bin", "rb");
    unsigned sum = 0;
    if (!file)
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        long n = strlen(line) > 5 ? atol(line + 5) : 0;
        if (!strncmp(line, "seek", 4))
            fseek(file, n, SEEK_SET);
        else if (!strncmp(line, "skip", 4))
            fseek(file, n, SEEK_CUR);
        else if (!strncmp(line, "read", 4) && n <= (long)sizeof data) {
            size_t got = fread(data, 1, (size_t)n, file);
            for (size_t i = 0; i < got; i++)
                sum = sum * 3 + (unsigned char)data[i];
        } else
            printf("what? %s", line);
    }
    fclose(file);
    printf("%u\n", sum);
    return 0;
}
