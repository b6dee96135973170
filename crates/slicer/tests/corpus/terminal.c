/* How wide a line is, the program asks its terminal, if it has one: opening /dev/tty fails where it has none, and then
 * nothing is asked.
 *
 * data: names.txt text a.bin\nb.bin\n
 * data: a.bin bytes 300000
 * data: b.bin bytes 90000
 * stdin: names.txt
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(void)
{
    char name[64];
    unsigned sum = 0;
    long columns = 80;
    struct winsize size;
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY);
    if (terminal >= 0 && ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 40)
        columns = size.ws_col;
    if (terminal >= 0)
        close(terminal);
    while (fgets(name, sizeof name, stdin) != NULL) {
        unsigned char byte;
        name[strcspn(name, "\n")] = '\0';
        int fd = open(name, O_RDONLY);
        for (long at = 56000; at >= 0; at -= 100 * columns)
            if (pread(fd, &byte, 1, at) == 1)
                sum = sum * 31 + byte;
        close(fd);
    }
    printf("%u\n", sum);
    return 0;
}
