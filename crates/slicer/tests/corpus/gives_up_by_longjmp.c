/* Errors come back to main by longjmp, where the program says so and ends; so it does in variadic functions.
 *
 * data: good.bin records 100
 * data: short.bin bytes 4000
 * run: good.bin
 * run: good.bin good.bin
 * run: absent.bin
 * expect: sliced
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf failed;
static const char *reason;
static int verbose;

static void say(const char *format, ...)
{
    va_list arguments;
    if (!verbose)
        return;
    va_start(arguments, format);
    vfprintf(stdout, format, arguments);
    va_end(arguments);
}

static void fail(const char *why)
{
    reason = why;
    longjmp(failed, 1);
}

static unsigned long read_backwards(const char *name)
{
    unsigned char record[64];
    unsigned long sum = 0;
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        fail("cannot open it");
    fseek(file, 0, SEEK_END);
    for (long at = ftell(file) - (long)sizeof record; at >= 0; at -= (long)sizeof record) {
        uint32_t key;
        if (fseek(file, at, SEEK_SET) != 0 || fread(record, sizeof record, 1, file) != 1)
            fail("cannot read it");
        key = record[0] | (uint32_t)record[1] << 8;
        if (key > 0xfff0)
            fail("no key");
        say("%u\n", (unsigned)key);
        sum = sum * 31 + key;
    }
    fclose(file);
    return sum;
}

int main(int argc, char **argv)
{
    verbose = argc > 2;
    if (setjmp(failed) != 0) {
        printf("error: %s\n", reason);
        exit(1);
    }
    for (int i = 1; i < argc; i++)
        printf("%s: %lu\n", argv[i], read_backwards(argv[i]));
    return 0;
}
