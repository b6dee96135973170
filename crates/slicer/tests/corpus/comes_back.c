/* Goes into folders and back by the descriptor of the one it was in; how wide a line is, it asks the terminal, and how large
 * names may be, the file system.
 *
 * data: list text one\ntwo\nnowhere\none/deep\n
 * data: one/a.bin bytes 60000
 * data: one/deep/a.bin bytes 9000
 * data: two/a.bin bytes 30000
 * run: list
 * expect: sliced in a process
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

static long columns = 80;

static unsigned sum_of(const char *name)
{
    unsigned char byte;
    unsigned sum = 0;
    int fd = open(name, O_RDONLY);
    for (long at = 56000; at >= 0; at -= 100 * columns)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    return sum;
}

int main(int argc, char **argv)
{
    char line[64];
    struct winsize size;
    struct statvfs system;
    if (ioctl(fileno(stdout), TIOCGWINSZ, (char *)&size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    int back = open(".", O_RDONLY | O_DIRECTORY);
    FILE *list = fopen(argc > 1 ? argv[1] : "list", "r");
    if (list == NULL || back < 0 || fstatvfs(back, &system) != 0)
        return 1;
    while (fgets(line, sizeof line, list) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (strlen(line) > system.f_namemax || chdir(line) != 0)
            continue;
        printf("%s %u\n", line, sum_of("a.bin"));
        if (fchdir(back) != 0)
            return 2;
    }
    fclose(list);
    close(back);
    return 0;
}
