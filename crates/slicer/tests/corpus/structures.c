/* Streams and descriptors in structures, in an array on the heap, passed by pointer.
 *
 * data: a.bin bytes 30000
 * data: b.bin bytes 45000
 * data: c.bin bytes 12345
 * run:
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
    char name[16];
    FILE *stream;
    long at, step;
    struct source *next;
};

static struct source *add(struct source *list, const char *name, long step)
{
    struct source *source = malloc(sizeof *source);
    if (source == NULL)
        exit(1);
    strcpy(source->name, name);
    source->stream = fopen(name, "rb");
    source->at = 0;
    source->step = step;
    source->next = list;
    return source;
}

static size_t take(struct source *source, char *buffer, size_t bytes)
{
    if (source->stream == NULL || fseek(source->stream, source->at, SEEK_SET) != 0)
        return 0;
    source->at += source->step;
    return fread(buffer, 1, bytes, source->stream);
}

int main(void)
{
    char buffer[100];
    struct source *list = NULL;
    unsigned sum = 0;
    int live;
    list = add(list, "a.bin", 5000);
    list = add(list, "b.bin", 9000);
    list = add(list, "none.bin", 1);
    list = add(list, "c.bin", 700);
    do {
        live = 0;
        for (struct source *source = list; source != NULL; source = source->next) {
            size_t got = take(source, buffer, sizeof buffer);
            if (got > 0) {
                live++;
                sum = sum * 3 + (unsigned char)buffer[got - 1];
            }
        }
    } while (live > 0);
    while (list != NULL) {
        struct source *next = list->next;
        if (list->stream != NULL)
            fclose(list->stream);
        free(list);
        list = next;
    }
    printf("%u\n", sum);
    return 0;
}
