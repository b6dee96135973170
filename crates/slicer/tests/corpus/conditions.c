/* Reads within conditions: &&, ||, ?:, comma, assignments, increments.
 *
 * data: data.bin bytes 64000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char a[64], b[128];
    int fd = open("data.bin", O_RDONLY), turns = 0;
    ssize_t got, total = 0;
    if (fd < 0)
        return 1;
    while ((got = read(fd, a, sizeof a)) > 0 && (turns++ < 100 || lseek(fd, 4096, SEEK_CUR) < 60000) &&
           (turns % 3 ? read(fd, b, sizeof b) > 0 : (lseek(fd, 1000, SEEK_CUR), 1)))
        total += got;
    for (int i = 0, j = 20; i < j; i++, j--)
        total += pread(fd, turns % 2 == 0 ? a : b, i < 5 && j > 15 ? 10 : 20, i * 3000L + j);
    close(fd);
    printf("%d turns, %zd\n", turns, total);
    return 0;
}
