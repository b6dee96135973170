/* Walks folders by their descriptors, deeper than there are names for, as fts(3) and its like do.
 *
 * data: tree/a.bin bytes 20000
 * data: tree/one/b.bin bytes 9000
 * data: tree/one/two/c.bin bytes 30000
 * data: tree/one/two/three/d.bin bytes 100
 * data: tree/other/e.bin bytes 5000
 * run: tree
 * run: tree/one tree nowhere tree
 * expect: sliced
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static unsigned sum_of(int fd)
{
    unsigned char byte;
    unsigned sum = 0;
    for (long at = 28000; at >= 0; at -= 4000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    return sum;
}

static void walk(int above, const char *name, int depth)
{
    char *names[16];
    int count = 0;
    struct dirent *entry;
    struct stat status;
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(folder)) != NULL && count < 16)
        if (entry->d_name[0] != '.')
            names[count++] = strdup(entry->d_name);
    qsort(names, (size_t)count, sizeof names[0], by_name);
    for (int i = 0; i < count; i++) {
        int file = openat(dirfd(folder), names[i], O_RDONLY);
        if (file >= 0 && fstat(file, &status) == 0) {
            if (S_ISDIR(status.st_mode))
                walk(fd, names[i], depth + 1);
            else
                printf("%d %s %u\n", depth, names[i], sum_of(file));
        }
        close(file);
        free(names[i]);
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    for (int round = 0; round < 40; round++)
        for (int i = 1; i < argc; i++)
            walk(AT_FDCWD, argv[i], round);
    return 0;
}
