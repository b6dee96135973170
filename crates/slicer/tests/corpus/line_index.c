/* An index of lines "NAME OFFSET LENGTH", read with getline and taken apart with strtok and strtoul.
 *
 * data: data.bin bytes 50000
 * data: index.txt text alpha 0 100\n# a comment\nbeta 40000 5000\ngamma 20000 17\n\ndelta 49990 500\n
 * run: alpha delta gamma
 * run: beta nothing
 * expect: sliced
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    char *name;
    unsigned long offset, length;
};

static struct entry entries[32];
static int count;

static void load(void)
{
    char *line = NULL;
    size_t room = 0;
    FILE *index = fopen("index.txt", "r");
    if (index == NULL)
        exit(1);
    while (getline(&line, &room, index) != -1 && count < 32) {
        char *name = strtok(line, " \n"), *offset = strtok(NULL, " \n"), *length = strtok(NULL, " \n");
        if (name == NULL || name[0] == '#' || offset == NULL || length == NULL)
            continue;
        entries[count].name = strdup(name);
        entries[count].offset = strtoul(offset, NULL, 10);
        entries[count].length = strtoul(length, NULL, 10);
        count++;
    }
    free(line);
    fclose(index);
}

int main(int argc, char **argv)
{
    static unsigned char bytes[8192];
    int fd = open("data.bin", O_RDONLY), unknown = 0;
    load();
    for (int i = 1; i < argc; i++) {
        int e = 0;
        while (e < count && strcmp(entries[e].name, argv[i]) != 0)
            e++;
        if (e == count) {
            unknown++;
            continue;
        }
        ssize_t got = pread(fd, bytes, entries[e].length, (off_t)entries[e].offset);
        printf("%s: %zd bytes, first %u\n", argv[i], got, bytes[0]);
    }
    close(fd);
    return unknown;
}
