/* Environment and conditional opening: another file if the first is missing.
 *
 * data: fallback.bin bytes 40000
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    char byte;
    const char *name = getenv("DATA_FILE"), *step_text = getenv("STEP");
    long step = step_text != NULL ? atol(step_text) : 4096;
    int fd = open(name != NULL ? name : "missing.bin", O_RDONLY);
    unsigned sum = 0;
    if (fd < 0 && (fd = open("fallback.bin", O_RDONLY)) < 0)
        return 1;
    for (long at = 39999; at >= 0; at -= step)
        if (pread(fd, &byte, 1, at) == 1)
            sum = sum * 9 + (unsigned char)byte;
    close(fd);
    printf("%u\n", sum);
    return 0;
}
