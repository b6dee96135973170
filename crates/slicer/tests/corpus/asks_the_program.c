/* A library without source is set up before files are read: whether that succeeded, the program knows. So it does for
 * what another program printed.
 *
 * object: asks_the_program_object.c
 * data: data.bin bytes 400000
 * run: plain
 * run: other
 * run: none
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct library;
struct library *library_open(const char *name);
int library_version(struct library *library);
void library_close(struct library *library);

static long from_another(void)
{
    long number = 0;
    FILE *program = popen("echo 4096", "r");
    if (!program)
        return 8192;
    if (fscanf(program, "%ld", &number) != 1)
        number = 8192;
    pclose(program);
    return number;
}

int main(int argc, char **argv)
{
    unsigned char byte;
    unsigned sum = 0;
    long step = 16384;
    struct library *library = library_open(argc > 1 ? argv[1] : "plain");
    if (!library) {
        fprintf(stderr, "no library\n");
        return 3;
    }
    if (library_version(library) > 4)
        step /= 2;
    if (argc > 1 && strcmp(argv[1], "other") == 0)
        step = from_another();
    int fd = open("data.bin", O_RDONLY);
    for (long at = 390000; at >= 0; at -= step)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 31 + byte;
    close(fd);
    library_close(library);
    printf("%u\n", sum);
    return 0;
}
