/* An offset from the clock: nobody can predict it, so the program forwards it.
 *
 * data: data.bin bytes 40000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    char bytes[10];
    long good = 0;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    time_t now = time(NULL);
    for (int i = 0; i < 10; i++)
        good += pread(fd, bytes, sizeof bytes, (now + i * 3001) % 39000) == 10;
    close(fd);
    printf("%ld reads\n", good);
    return 0;
}
