/* Names of files come in on standard input, each is read as far as its own head says.
 *
 * data: names.txt text a.bin\nb.bin\nabsent.bin\nc.bin\n
 * data: a.bin bytes 70000
 * data: b.bin bytes 9000
 * data: c.bin bytes 30
 * stdin: names.txt
 * run:
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *name = NULL;
    size_t room = 0;
    ssize_t length;
    char names[16][64];
    int count = 0;
    while (count < 16 && fgets(names[count], sizeof names[0], stdin) != NULL) {
        names[count][strcspn(names[count], "\r\n")] = '\0';
        count++;
    }
    for (int i = 0; i < count; i++) {
        unsigned char head[2], byte = 0;
        FILE *file = fopen(names[i], "rb");
        if (file == NULL) {
            printf("%s: missing\n", names[i]);
            continue;
        }
        if (fread(head, 1, 2, file) == 2 && fseek(file, head[0] * 256 + head[1], SEEK_SET) == 0 &&
            fread(&byte, 1, 1, file) == 1)
            printf("%s: %d\n", names[i], byte);
        fclose(file);
    }
    length = getline(&name, &room, stdin);
    free(name);
    return length > 0;
}
