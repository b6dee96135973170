/* Arguments with directives and comments between them, of a function that may be another one by macro.
 *
 * data: data.bin bytes 60000
 * run: -n 5 -r data.bin
 * run: -n 3 data.bin
 * expect: sliced in a process
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NEXT_OPTION getopt
#define HAVE_REVERSE 1

static long place(long index, // from 0
                  long size, /* of the file */
                  int reverse)
{
    return reverse ? size - (index + 1) * 8192 : index * 8192;
}

int main(int argc, char **argv)
{
    int option, reverse = 0;
    long count = 2;
    while ((option = NEXT_OPTION(argc, argv, "n:"
#ifdef HAVE_REVERSE
                                             "r" // and the other way round
#endif
#ifdef HAVE_SOMETHING_ELSE
                                             "x"
#endif
                                 )) != -1) {
        switch (option) {
        case 'n':
            count = atol(optarg);
            break;
        case 'r':
            reverse = 1;
            break;
        default:
            return 2;
        }
    }
    int fd = open(argv[optind], O_RDONLY);
    long size = lseek(fd, 0, SEEK_END);
    unsigned char block[512];
    unsigned sum = 0;
    for (long i = 0; i < count; i++) {
        long at = place(i,
#ifdef HAVE_REVERSE
                        size, reverse
#else
                        size, 0
#endif
        );
        if (pread(fd, block, sizeof block, at) == (ssize_t)sizeof block)
            sum = sum * 31 + block[0]; // only the first
    }
    close(fd);
    printf("%u\n", sum);
    return 0;
}
