/* Offsets come from standard input, which cannot be read twice: the program forwards them.
 *
 * data: data.bin bytes 90000
 * data: questions.txt numbers 40 100000
 * stdin: questions.txt
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char answer[9] = {0};
    long offset, asked = 0;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    while (scanf("%ld", &offset) == 1) {
        asked++;
        ssize_t got = pread(fd, answer, 8, offset);
        printf("%ld: %zd %02x\n", offset, got, got > 0 ? (unsigned char)answer[0] : 0);
    }
    close(fd);
    printf("%ld asked\n", asked);
    return 0;
}
