/* readv and preadv into several buffers.
 *
 * data: data.bin bytes 100000
 * run:
 * expect: sliced
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void)
{
    static unsigned char head[64], body[3000], tail[32];
    struct iovec parts[3] = {{head, sizeof head}, {body, sizeof body}, {tail, sizeof tail}};
    unsigned sum = 0;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0)
        return 1;
    while (readv(fd, parts, 3) > 0)
        sum = sum * 11 + head[0] + body[sizeof body - 1] + tail[5];
    for (off_t at = 90000; at > 0; at -= 7777) {
        parts[1].iov_len = 100 + (size_t)(at % 500);
        if (preadv(fd, parts, 2, at) > 0)
            sum += body[99];
    }
    close(fd);
    printf("%u\n", sum);
    return 0;
}
