/* Options of the command line decide on file, begin, length and order.
 *
 * data: data.bin bytes 65536
 * data: other.bin bytes 30000
 * run: -b 100 -n 9 data.bin
 * run: -r -s 5000 data.bin other.bin
 * run: -x data.bin
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    long begin, step, count;
    int reverse;
};

static int parse(int argc, char **argv, struct options *options)
{
    int i;
    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "-r") == 0)
            options->reverse = 1;
        else if (i + 1 < argc && strcmp(argv[i], "-b") == 0)
            options->begin = atol(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "-s") == 0)
            options->step = atol(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "-n") == 0)
            options->count = atol(argv[++i]);
        else
            return -1;
    }
    return i;
}

static int show(const char *path, const struct options *options)
{
    unsigned char bytes[24];
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 1;
    long size = lseek(fd, 0, SEEK_END), at = options->reverse ? size - (long)sizeof bytes : options->begin;
    unsigned sum = 0;
    for (long i = 0; i < options->count && at >= 0 && at < size; i++) {
        ssize_t got = pread(fd, bytes, sizeof bytes, at);
        if (got < 0)
            break;
        sum += bytes[got / 2];
        at += options->reverse ? -options->step : options->step;
    }
    close(fd);
    printf("%s %u\n", path, sum);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = {0, 4096, 1000, 0};
    int first = parse(argc, argv, &options), failed = 0;
    if (first < 0 || first >= argc) {
        fprintf(stderr, "usage: %s [-r] [-b BEGIN] [-s STEP] [-n COUNT] FILE...\n", argv[0]);
        return 2;
    }
    for (int i = first; i < argc; i++)
        failed += show(argv[i], &options);
    return failed;
}
