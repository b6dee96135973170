/* Which function computes the next offset is looked up in a table.
 *
 * data: data.bin bytes 100000
 * run: fbfrz
 * run: zzz
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

typedef long (*step)(long at, long size);

static long forward(long at, long size)
{
    return (at + 4096) % size;
}

static long backward(long at, long size)
{
    return (at + size - 4096) % size;
}

static long random_step(long at, long size)
{
    return (long)(((unsigned long)at * 1103515245u + 12345u) % (unsigned long)size);
}

static long stay(long at, long size)
{
    (void)size;
    return at;
}

static const struct {
    char name;
    step function;
} steps[] = {{'f', forward}, {'b', backward}, {'r', random_step}};

static step find(char name)
{
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (steps[i].name == name)
            return steps[i].function;
    return stay;
}

int main(int argc, char **argv)
{
    unsigned char bytes[64];
    unsigned sum = 0;
    long at = 0;
    int fd = open("data.bin", O_RDONLY);
    if (fd < 0 || argc < 2)
        return 1;
    for (const char *command = argv[1]; *command != 0; command++) {
        step next = find(*command);
        for (int i = 0; i < 6; i++) {
            at = next(at, 100000);
            lseek(fd, at, SEEK_SET);
            if (read(fd, bytes, sizeof bytes) > 0)
                sum = sum * 13 + bytes[i];
        }
    }
    close(fd);
    printf("%ld %u\n", at, sum);
    return 0;
}
