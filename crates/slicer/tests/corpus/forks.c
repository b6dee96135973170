/* Starts a process for each file, which reads it and ends with a number; what that is, decides what is read next.
 *
 * data: a.bin bytes 60000
 * data: b.bin bytes 50000
 * run: a.bin b.bin
 * run: b.bin nowhere a.bin
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned sum_of(const char *name, long step)
{
    unsigned char byte;
    unsigned sum = 0;
    int fd = open(name, O_RDONLY);
    if (fd < 0)
        return 99;
    for (long at = 48000; at >= 0; at -= step)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    return sum;
}

static int ended(pid_t child, int *status)
{
    return waitpid(child, status, 0) == child;
}

int main(int argc, char **argv)
{
    int status = 0;
    for (int i = 1; i < argc; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            _exit((int)(sum_of(argv[i], 6000) % 7));
        if (child < 0 || !ended(child, i % 2 ? &status : NULL))
            return 1;
        printf("%d %u\n", WEXITSTATUS(status), sum_of(argv[i], 4000 + 1000 * WEXITSTATUS(status)));
    }
    return 0;
}
