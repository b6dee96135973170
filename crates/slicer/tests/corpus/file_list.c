/* Files named in a list, each read whole; some are missing.
 *
 * data: one.bin bytes 10000
 * data: two.bin bytes 50
 * data: three.bin bytes 20480
 * data: empty.bin bytes 0
 * data: list.txt text one.bin\nthree.bin\nabsent.bin\nempty.bin\ntwo.bin\none.bin\n
 * run: list.txt
 * run: absent.txt
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned long digest(const unsigned char *bytes, ssize_t count, unsigned long state)
{
    while (count-- > 0)
        state = (state ^ *bytes++) * 1099511628211ul;
    return state;
}

int main(int argc, char **argv)
{
    char name[256];
    unsigned char buffer[4096];
    int missing = 0;
    FILE *list = fopen(argc > 1 ? argv[1] : "list.txt", "r");
    if (list == NULL) {
        perror("list");
        return 4;
    }
    while (fgets(name, sizeof name, list) != NULL) {
        unsigned long state = 14695981039346656037ul;
        ssize_t got;
        name[strcspn(name, "\n")] = 0;
        int fd = open(name, O_RDONLY);
        if (fd == -1) {
            printf("%s: missing\n", name);
            missing++;
            continue;
        }
        while ((got = read(fd, buffer, sizeof buffer)) > 0)
            state = digest(buffer, got, state);
        close(fd);
        printf("%s: %016lx\n", name, state);
    }
    fclose(list);
    return missing;
}
