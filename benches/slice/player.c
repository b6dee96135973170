/* A player of films: reads 4 KiB every STRIDE bytes, forwards or backwards. Cases Forward 1 and 2 and
 * Backward 1 and 2 of Yang, Mitra and Chiueh 2002, Table 1.
 *
 *   player FILE STRIDE forward|backward
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static unsigned char picture[4096];
    unsigned long screen = 0;
    if (argc < 4)
        return 2;
    long stride = atol(argv[2]);
    int backward = argv[3][0] == 'b';
    int film = open(argv[1], O_RDONLY);
    if (film < 0) {
        perror(argv[1]);
        return 1;
    }
    long pictures = lseek(film, 0, SEEK_END) / stride;
    for (long i = 0; i < pictures; i++) {
        lseek(film, (backward ? pictures - 1 - i : i) * stride, SEEK_SET);
        if (read(film, picture, sizeof picture) != (ssize_t)sizeof picture)
            return 1;
        for (size_t j = 0; j < sizeof picture; j += 8)
            screen = screen * 31 + picture[j];
    }
    close(film);
    printf("%ld pictures, %lu\n", pictures, screen);
    return 0;
}
