/* Names begin at the current folder, and the program changes that, also where it does not ask whether it could.
 *
 * data: one/list.txt text b.bin\na.bin\n
 * data: one/a.bin bytes 20000
 * data: one/b.bin bytes 9000
 * data: two/list.txt text a.bin\n
 * data: two/a.bin bytes 30000
 * data: two/deep/list.txt text c.bin\n../a.bin\n
 * data: two/deep/c.bin bytes 6000
 * run: one
 * run: two deep
 * run: one ../two deep ../../one nowhere
 * expect: sliced in a process
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned long sum;

static void sum_up(const char *name)
{
    unsigned char bytes[4096];
    ssize_t got;
    int fd = open(name, O_RDONLY);
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < got; i++)
            sum = sum * 31 + bytes[i];
    close(fd);
}

int main(int argc, char **argv)
{
    char name[64];
    for (int i = 1; i < argc; i++) {
        if (chdir(argv[i]) != 0)
            continue;
        chdir(".");
        FILE *list = fopen("list.txt", "r");
        while (list != NULL && fgets(name, sizeof name, list) != NULL) {
            name[strcspn(name, "\n")] = 0;
            sum_up(name);
        }
        if (list != NULL)
            fclose(list);
    }
    printf("%lu\n", sum);
    return 0;
}
