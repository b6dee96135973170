/* Runs that are sorted, merged by a heap: which one is read next, is in the data.
 *
 * data: run0 sorted 900
 * data: run1 sorted 1500
 * data: run2 sorted 30
 * data: run3 sorted 700
 * run: 4
 * run: 6
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>

struct run {
    FILE *file;
    long value;
};

static struct run *heap[16];
static int heap_size;

static int advance(struct run *run)
{
    return fscanf(run->file, "%ld", &run->value) == 1;
}

static void sink_down(int at)
{
    for (int child; (child = 2 * at + 1) < heap_size; at = child) {
        if (child + 1 < heap_size && heap[child + 1]->value < heap[child]->value)
            child++;
        if (heap[at]->value <= heap[child]->value)
            return;
        struct run *other = heap[at];
        heap[at] = heap[child];
        heap[child] = other;
    }
}

int main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : 4;
    unsigned long sum = 0, count = 0;
    for (int i = 0; i < runs && i < 16; i++) {
        char name[32];
        snprintf(name, sizeof name, "run%d", i);
        struct run *run = malloc(sizeof *run);
        run->file = fopen(name, "r");
        if (run->file != NULL && advance(run))
            heap[heap_size++] = run;
        else
            free(run);
    }
    for (int i = heap_size / 2; i >= 0; i--)
        sink_down(i);
    while (heap_size > 0) {
        sum = sum * 31 + (unsigned long)heap[0]->value;
        count++;
        if (!advance(heap[0])) {
            fclose(heap[0]->file);
            heap[0] = heap[--heap_size];
        }
        sink_down(0);
    }
    printf("%lu values, %lu\n", count, sum);
    return 0;
}
