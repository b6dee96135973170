/* Files by patterns, which the program has expanded.
 *
 * data: a1.bin bytes 9000
 * data: a2.bin bytes 30000
 * data: b1.bin bytes 500
 * run: a*.bin b*.bin
 * run: c*.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned sum = 0;
    for (int i = 1; i < argc; i++) {
        glob_t found;
        if (glob(argv[i], 0, NULL, &found) != 0) {
            printf("%s: nothing\n", argv[i]);
            continue;
        }
        for (size_t j = 0; j < found.gl_pathc; j++) {
            unsigned char byte = 0;
            int fd = open(found.gl_pathv[j], O_RDONLY);
            for (off_t at = lseek(fd, 0, SEEK_END) - 1; at >= 0; at -= 5000)
                if (pread(fd, &byte, 1, at) == 1)
                    sum = sum * 31 + byte;
            close(fd);
        }
        globfree(&found);
    }
    printf("%u\n", sum);
    return 0;
}
