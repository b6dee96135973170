/* Reads some files, and if it is told to, changes what it may do before the next: there the slice ends.
 *
 * data: first.bin bytes 60000
 * data: second.bin bytes 60000
 * run: first.bin -l second.bin
 * says: (foretell_slice_leave(), setgid(getgid()))
 * untouched: second.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned sum_of(const char *path)
{
    unsigned char byte;
    unsigned sum = 0;
    int fd = open(path, O_RDONLY);
    for (long at = 56000; at >= 0; at -= 8000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    return sum;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-l") == 0) {
            if (setgid(getgid()) != 0)
                return 1;
        } else {
            printf("%u\n", sum_of(argv[i]));
        }
    }
    return 0;
}
