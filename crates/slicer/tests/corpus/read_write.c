/* A file is read while another is written; the copy is never read back.
 *
 * data: input.bin bytes 70000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    static char block[4096];
    long copied = 0;
    int from = open("input.bin", O_RDONLY), to = open("output.bin", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (from < 0 || to < 0)
        return 1;
    for (long i = lseek(from, 0, SEEK_END) / 4096; i >= 0; i--) {
        ssize_t got = pread(from, block, sizeof block, i * 4096);
        if (got <= 0)
            break;
        if (pwrite(to, block, (size_t)got, i * 4096) != got)
            return 1;
        copied += got;
    }
    close(from);
    close(to);
    printf("%ld bytes\n", copied);
    return 0;
}
