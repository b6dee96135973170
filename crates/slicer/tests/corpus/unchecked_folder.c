/* The folder is changed, and nobody looks whether it was.
 *
 * data: there/data.bin bytes 50000
 * data: data.bin bytes 20000
 * run: there
 * run: nowhere
 * expect: sliced in a process
 */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char byte;
    unsigned sum = 0;
    if (argc > 1)
        chdir(argv[1]);
    FILE *file = fopen("data.bin", "rb");
    if (file == NULL)
        return 1;
    for (long at = 0; fseek(file, at, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1; at += 8192)
        sum = sum * 31 + (unsigned char)byte;
    fclose(file);
    printf("%u\n", sum);
    return 0;
}
