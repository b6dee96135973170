/* A player: frames of changing length, forwards, fast forwards, backwards, as a script of commands says.
 *
 * data: movie.bin bytes 180000
 * run: p10f4b8p3B5
 * run: b40f9
 * expect: sliced
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAMES 60

static long frame_begin[FRAMES + 1];

static void build_index(void)
{
    for (int i = 0; i < FRAMES; i++)
        frame_begin[i + 1] = frame_begin[i] + 1500 + i * 977 % 2000;
}

static unsigned decode(const unsigned char *data, size_t bytes)
{
    unsigned picture = 0;
    for (size_t i = 0; i < bytes; i++)
        picture = (picture >> 1) + data[i] * 257u;
    return picture;
}

int main(int argc, char **argv)
{
    static unsigned char data[4096];
    unsigned screen = 0;
    int frame = 0;
    FILE *movie = fopen("movie.bin", "rb");
    if (movie == NULL || argc < 2)
        return 1;
    build_index();
    for (char *command = argv[1]; *command != 0;) {
        char what = *command++;
        int step = what == 'p' ? 1 : what == 'f' ? 4 : what == 'b' ? -1 : -4;
        for (long n = strtol(command, &command, 10); n > 0; n--) {
            if (frame < 0 || frame >= FRAMES)
                break;
            size_t bytes = (size_t)(frame_begin[frame + 1] - frame_begin[frame]);
            fseek(movie, frame_begin[frame], SEEK_SET);
            screen += decode(data, fread(data, 1, bytes, movie));
            frame += step;
        }
        frame = frame < 0 ? 0 : frame >= FRAMES ? FRAMES - 1 : frame;
        while (*command != 0 && !isalpha((unsigned char)*command))
            command++;
    }
    fclose(movie);
    printf("frame %d, %u\n", frame, screen);
    return 0;
}
