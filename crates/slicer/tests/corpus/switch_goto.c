/* A small machine: switch with fall-through, goto in and out of loops, for(;;), break, continue.
 *
 * data: data.bin bytes 80000
 * run: 0
 * run: 1
 * run: 2
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char bytes[256];
    int state = argc > 1 ? atoi(argv[1]) : 0, turns = 0, sum = 0;
    off_t at = 0;
    ssize_t got;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0)
        goto failed;
    for (;;) {
        switch (state) {
        case 0:
            at += 10000;
            /* fall through */
        case 1:
            at -= 3000;
            state = 2;
            break;
        case 2:
            if (++turns % 3 == 0)
                goto jump;
            state = turns & 1;
            continue;
        case 3:
        jump:
            at = (at * 7 + 4096) % 70000;
            state = turns % 5 == 0 ? 4 : 0;
            break;
        default:
            if (turns > 20)
                goto done;
            turns++;
            state = 1;
            continue;
        }
        if (at < 0)
            at = -at;
        got = pread(fd, bytes, sizeof bytes, at);
        if (got <= 0)
            break;
        sum += bytes[0] ^ bytes[got - 1];
    }
done:
    close(fd);
    printf("%d turns, %ld, %d\n", turns, (long)at, sum);
    return 0;
failed:
    fprintf(stderr, "no data\n");
    return 1;
}
