/* What it waits for decides where it reads: on input that is there or not, and for another program.
 *
 * data: data.bin bytes 400000
 * data: input.txt text some input\n
 * stdin: input.txt
 * run: 1
 * run: 0
 * expect: sliced
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_ready(int descriptor)
{
    fd_set waited_for;
    struct timeval limit = { 0, 0 };
    FD_ZERO(&waited_for);
    FD_SET(descriptor, &waited_for);
    return select(descriptor + 1, &waited_for, NULL, NULL, &limit) == 1 && FD_ISSET(descriptor, &waited_for);
}

static int polled(struct pollfd *all, int count)
{
    int ready = 0;
    if (poll(all, (nfds_t)count, 0) < 0)
        return -1;
    for (int i = 0; i < count; i++)
        ready += (i + 1) * ((all[i].revents & (POLLIN | POLLOUT)) != 0);
    return ready;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) + 1 : 1;
    struct pollfd all[2] = { { .fd = 0, .events = POLLIN }, { .fd = 1, .events = POLLOUT } };
    long place = is_ready(0) * 3 + polled(all, count) * 5;
    FILE *other = popen("exit 2", "r");
    int status = other ? pclose(other) : 0;
    if (WIFEXITED(status))
        place += WEXITSTATUS(status) * 7;
    unsigned char byte = 0;
    unsigned sum = 0;
    int data = open("data.bin", O_RDONLY);
    for (int i = 0; i < 20; i++)
        if (pread(data, &byte, 1, (place + i) * 4096) == 1)
            sum = sum * 31 + byte;
    close(data);
    printf("%u at %ld\n", sum, place);
    return 0;
}
