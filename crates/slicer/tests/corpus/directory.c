/* The files of a directory, in sorted order: the head of each, then the tail of the large ones.
 *
 * data: folder/a bytes 100
 * data: folder/b bytes 9000
 * data: folder/c bytes 40000
 * data: folder/d bytes 0
 * run: folder
 * run: nowhere
 * expect: sliced
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 64

static char names[MOST][64];

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int main(int argc, char **argv)
{
    char path[256], bytes[512];
    struct dirent *entry;
    int count = 0;
    DIR *folder = opendir(argc > 1 ? argv[1] : ".");
    if (folder == NULL) {
        perror("opendir");
        return 1;
    }
    while ((entry = readdir(folder)) != NULL && count < MOST)
        if (entry->d_name[0] != '.')
            snprintf(names[count++], sizeof names[0], "%s", entry->d_name);
    closedir(folder);
    qsort(names, (size_t)count, sizeof names[0], by_name);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]);
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            continue;
        ssize_t got = read(fd, bytes, sizeof bytes);
        printf("%s %zd", names[i], got);
        if (lseek(fd, 0, SEEK_END) > 8192) {
            lseek(fd, -(off_t)sizeof bytes, SEEK_END);
            got = read(fd, bytes, sizeof bytes);
            printf(" %d", bytes[got - 1]);
        }
        printf("\n");
        close(fd);
    }
    return 0;
}
