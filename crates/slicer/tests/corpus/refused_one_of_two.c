/* One file is refused (assembly computes its offsets); the other is sliced all the same.
 *
 * data: good.bin bytes 50000
 * data: bad.bin bytes 50000
 * run:
 * expect: partly assembly
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    unsigned char a = 0, b = 0;
    unsigned sum = 0;
    int good = open("good.bin", O_RDONLY), bad = open("bad.bin", O_RDONLY);
    if (good < 0 || bad < 0)
        return 1;
    for (long i = 11; i >= 0; i--) {
        long at = i * 17;
        __asm__("" : "+r"(at));
        if (pread(good, &a, 1, i * 4096) == 1 && pread(bad, &b, 1, at) == 1)
            sum = sum * 3 + a + b;
    }
    close(good);
    close(bad);
    printf("%u\n", sum);
    return 0;
}
