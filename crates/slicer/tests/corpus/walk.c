/* A tree of folders, walked by recursion; of each file the head, where its size and name say so.
 *
 * data: tree/a.txt bytes 9000
 * data: tree/b.bin bytes 30000
 * data: tree/sub/c.txt bytes 100
 * data: tree/sub/deep/d.txt bytes 40000
 * data: tree/sub/deep/e bytes 0
 * run: tree
 * run: tree/sub tree/a.txt
 * expect: sliced
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned long total, files;

static int has_end(const char *name, const char *end)
{
    size_t length = strlen(name), wanted = strlen(end);
    return length >= wanted && strcmp(name + length - wanted, end) == 0;
}

static void look(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return;
    if (S_ISDIR(status.st_mode)) {
        struct dirent *entry;
        DIR *folder = opendir(path);
        if (folder == NULL)
            return;
        while ((entry = readdir(folder)) != NULL) {
            char below[4096];
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
            look(below);
        }
        closedir(folder);
    } else if (S_ISREG(status.st_mode) && (has_end(path, ".txt") || status.st_size > 20000)) {
        unsigned char head[512];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = read(fd, head, sizeof head);
        for (ssize_t i = 0; i < got; i++)
            total += head[i];
        close(fd);
        files++;
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        look(argv[i]);
    printf("%lu files, %lu\n", files, total);
    return files == 0;
}
