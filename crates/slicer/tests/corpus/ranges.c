/* Ranges on the command line, by sscanf; files in pieces, by a wrapper with a structure of its own.
 *
 * data: part000 bytes 20000
 * data: part001 bytes 20000
 * data: part002 bytes 7000
 * run: 100-200 19990-20010 39999-40010 46000-50000
 * run: 5 x-y
 * expect: sliced
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 20000
#define MIN(a, b) ((a) < (b) ? (a) : (b))

struct pieces {
    int fds[8], count;
    off_t bytes;
};

static struct pieces *open_pieces(const char *stem)
{
    struct pieces *pieces = calloc(1, sizeof *pieces);
    char *name = malloc(strlen(stem) + 8);
    if (pieces == NULL || name == NULL)
        abort();
    for (; pieces->count < 8; pieces->count++) {
        sprintf(name, "%s%03d", stem, pieces->count);
        int fd = open(name, O_RDONLY);
        if (fd < 0)
            break;
        pieces->fds[pieces->count] = fd;
        pieces->bytes += lseek(fd, 0, SEEK_END);
    }
    free(name);
    return pieces;
}

static size_t read_pieces(struct pieces *pieces, unsigned char *to, size_t bytes, off_t at)
{
    size_t done = 0;
    while (done < bytes && at < pieces->bytes) {
        size_t room = MIN(bytes - done, (size_t)(PIECE - at % PIECE));
        ssize_t got = pread(pieces->fds[at / PIECE], to + done, room, at % PIECE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
        at += got;
    }
    return done;
}

int main(int argc, char **argv)
{
    static unsigned char buffer[PIECE];
    struct pieces *pieces = open_pieces("part");
    for (int i = 1; i < argc; i++) {
        long from, to;
        switch (sscanf(argv[i], "%ld-%ld", &from, &to)) {
        case 1:
            to = from;
            break;
        case 2:
            break;
        default:
            printf("%s: no range\n", argv[i]);
            continue;
        }
        size_t got = read_pieces(pieces, buffer, MIN((size_t)(to - from + 1), sizeof buffer), from);
        unsigned sum = 0;
        for (size_t j = 0; j < got; j++)
            sum = sum * 31 + buffer[j];
        printf("%s: %zu bytes, %u\n", argv[i], got, sum);
    }
    while (pieces->count > 0)
        close(pieces->fds[--pieces->count]);
    free(pieces);
    return 0;
}
