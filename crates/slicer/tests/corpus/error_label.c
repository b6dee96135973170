/* The files of a list, each summed up; the label for errors stands behind the last return, so that the return
 * decides whether the list is closed twice. What is returned depends on the data; where it returns does not.
 *
 * data: one.bin bytes 10000
 * data: two.bin bytes 50
 * data: list.txt text one.bin\nabsent.bin\ntwo.bin\none.bin\n
 * run: list.txt
 * run: absent.txt
 * vanishes: sum_up
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned sum_up(const unsigned char *bytes, ssize_t count, unsigned sum)
{
    while (count-- > 0)
        sum = sum * 31 + *bytes++;
    return sum;
}

static int check(const char *path)
{
    char name[256];
    unsigned char block[4096];
    int wrong = 0;
    FILE *list = fopen(path, "r");
    if (list == NULL)
        return 1;
    while (fgets(name, sizeof name, list) != NULL) {
        unsigned sum = 0;
        ssize_t n;
        name[strcspn(name, "\n")] = 0;
        if (name[0] == '/')
            goto error;
        int fd = open(name, O_RDONLY);
        if (fd < 0)
            continue;
        while ((n = read(fd, block, sizeof block)) > 0)
            sum = sum_up(block, n, sum);
        if (sum % 2 == 0)
            wrong = 1;
        printf("%s %u\n", name, sum);
        close(fd);
    }
    fclose(list);
    return wrong;
error:
    fclose(list);
    return 1;
}

int main(int argc, char **argv)
{
    return check(argc > 1 ? argv[1] : "list.txt");
}
