/* longjmp decides whether there are more reads: the slice knows of the first one.
 *
 * data: data.bin bytes 20000
 * run:
 * expect: begun
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>

static jmp_buf again;

static void leap(int turn)
{
    if (turn < 4)
        longjmp(again, turn + 1);
}

int main(void)
{
    char byte = 0;
    int fd = open("data.bin", O_RDONLY);
    int turn = setjmp(again);
    if (pread(fd, &byte, 1, turn * 4096) != 1)
        return 1;
    printf("%d\n", byte);
    leap(turn);
    close(fd);
    return 0;
}
