/* What a slice cannot follow, each on a way of its own: it ends there, and where no run comes there, it does not.
 *
 * data: data.bin bytes 200000
 * run: plain
 * run: variable
 * run: goto
 * run: assembly
 * run: array 40
 * run: other
 * run: fork
 * run: structure
 * expect: until a computed goto
 */
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned sum;

static void read_at(int fd, long at)
{
    unsigned char byte;
    if (pread(fd, &byte, 1, at) == 1)
        sum = sum * 31 + byte;
}

static long largest(int count, ...)
{
    va_list numbers;
    long found = 0;
    va_start(numbers, count);
    for (int i = 0; i < count; i++) {
        long number = va_arg(numbers, long);
        if (number > found)
            found = number;
    }
    va_end(numbers);
    return found;
}

static long jumps(int where)
{
    static void *const ways[] = {&&near, &&far};
    goto *ways[where];
near:
    return 4096;
far:
    return 81920;
}

static long computed(int length)
{
    long offsets[length];
    for (int i = 0; i < length; i++)
        offsets[i] = i * 4096L;
    return offsets[length / 2];
}

static long from_another(void)
{
    long number = 0;
    FILE *program = popen("echo 12288", "r");
    if (program && fscanf(program, "%ld", &number) != 1)
        number = 0;
    if (program)
        pclose(program);
    return number;
}

static long from_child(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(5);
    waitpid(child, &status, 0);
    return 4096L * WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "plain";
    int fd = open("data.bin", O_RDONLY);
    long at = 150000;
    for (int i = 0; i < 4; i++)
        read_at(fd, at - i * 8192L);
    if (strcmp(way, "variable") == 0)
        at = largest(3, 4096L, 90000L, 20000L);
    else if (strcmp(way, "goto") == 0)
        at = jumps(argc > 1);
    else if (strcmp(way, "assembly") == 0)
        __asm__("" : "+r"(at));
    else if (strcmp(way, "array") == 0)
        at = computed(argc > 2 ? atoi(argv[2]) : 8);
    else if (strcmp(way, "other") == 0)
        at = from_another();
    else if (strcmp(way, "fork") == 0)
        at = from_child();
    else if (strcmp(way, "structure") == 0)
        at = 4096L * div(atoi("27"), 5).quot + (long)strlen(localeconv()->decimal_point);
    for (int i = 0; i < 4; i++)
        read_at(fd, at - i * 1024L);
    close(fd);
    printf("%s %u\n", way, sum);
    return 0;
}
