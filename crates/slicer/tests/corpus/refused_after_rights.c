/* All that it reads, it reads with other rights than it was started with.
 *
 * expect: refused only after setuid()
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char byte;
    unsigned sum = 0;
    if (argc < 2 || setuid(getuid()) != 0)
        return 1;
    int fd = open(argv[1], O_RDONLY);
    for (long at = 56000; at >= 0; at -= 8000)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + (unsigned char)byte;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
