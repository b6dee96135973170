/* Two descriptors of one open file share its offset; a third, opened separately, has its own.
 *
 * data: data.bin bytes 70000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    unsigned char bytes[500];
    unsigned sum = 0;
    int first = open("data.bin", O_RDONLY), second = dup(first), other = open("data.bin", O_RDONLY);
    if (first < 0 || second < 0 || other < 0)
        return 1;
    lseek(other, -500, SEEK_END);
    for (int i = 0; i < 20; i++) {
        if (read(i % 2 ? first : second, bytes, sizeof bytes) > 0)
            sum = sum * 5 + bytes[0];
        if (i % 4 == 3)
            lseek(second, 2000, SEEK_CUR);
        if (read(other, bytes, sizeof bytes) > 0)
            sum = sum * 5 + bytes[1];
        lseek(other, -1500, SEEK_CUR);
    }
    close(first);
    if (read(second, bytes, 100) == 100)
        sum += bytes[99];
    close(second);
    close(other);
    printf("%u\n", sum);
    return 0;
}
