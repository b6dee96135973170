/*
 * External merge sort: sorts the 8-byte records of a file as unsigned numbers, with little memory.
 *
 * The input is read once, and sorted runs are written to temporary files. These are merged, eight at a time in
 * the order of their creation, each written once and read once.
 *
 * Strategy (sort in OSDI 1994, section 5.1): the input has priority -1, and so has the output, which is not read
 * again either. MRU on levels -1 and 0, as runs made earlier are merged first. A block of a run that was merged
 * gets the temporary priority -1.
 */
#include "example.h"

#define RUN_RECORDS 16384 /* records sorted in memory: 128 KiB */
#define WAYS 8
#define BUFFER_RECORDS (FORETELL_BLOCK / sizeof(uint64_t))

/* A run that is being merged: a block of it at a time. */
struct run {
    int fd;
    int64_t next; /* where the next block begins */
    size_t at, have;
    int ended;
    uint64_t records[BUFFER_RECORDS];
};

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void write_all(int fd, const void *from, size_t length)
{
    const char *at = from;
    while (length > 0) {
        ssize_t n = write(fd, at, length);
        if (n < 0)
            die("write");
        at += n;
        length -= (size_t)n;
    }
}

/* A temporary file that is gone when it is closed. */
static int temporary(const char *directory)
{
    static int made;
    char path[4096];
    snprintf(path, sizeof path, "%s/merge_sort.%ld.%d", directory, (long)getpid(), made++);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        die(path);
    unlink(path);
    if (control)
        foretell_set_priority(fd, 0); /* only files that were named are under control */
    return fd;
}

/* Makes sure that there is a record to look at; returns 0 at the end of the run. */
static int fill(struct run *run)
{
    if (run->at < run->have)
        return 1;
    if (run->ended)
        return 0;
    if (control && run->next > 0) {
        uint64_t read = (uint64_t)(run->next - 1) / FORETELL_BLOCK;
        foretell_set_temppri(run->fd, read, read, -1);
    }
    run->have = read_at(run->fd, run->records, sizeof run->records, run->next) / sizeof(uint64_t);
    run->next += (int64_t)(run->have * sizeof(uint64_t));
    run->at = 0;
    run->ended = run->have == 0;
    return !run->ended;
}

/* Merges runs into `to`, and closes them. */
static void merge(const int *fds, int count, int to)
{
    static struct run runs[WAYS];
    static uint64_t out[BUFFER_RECORDS];
    size_t n = 0;

    for (int i = 0; i < count; i++)
        runs[i] = (struct run){ .fd = fds[i] };
    for (;;) {
        struct run *least = NULL;
        for (int i = 0; i < count; i++)
            if (fill(&runs[i]) && (least == NULL || runs[i].records[runs[i].at] < least->records[least->at]))
                least = &runs[i];
        if (least != NULL)
            out[n++] = least->records[least->at++];
        if (n == BUFFER_RECORDS || least == NULL) {
            write_all(to, out, n * sizeof *out);
            n = 0;
        }
        if (least == NULL)
            break;
    }
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

int main(int argc, char **argv)
{
    static uint64_t records[RUN_RECORDS];

    arguments(&argc, &argv, 3, "INPUT OUTPUT TEMPORARY_DIRECTORY");
    int input = open_file(argv[1]);
    if (control) {
        foretell_set_policy(-1, FORETELL_MRU);
        foretell_set_policy(0, FORETELL_MRU);
        foretell_set_priority(input, -1);
    }

    size_t most = (size_t)size_of(input) / sizeof records + 2;
    int *runs = calloc(2 * most, sizeof *runs);
    if (runs == NULL)
        die("calloc");
    size_t made = 0, merged = 0;
    int64_t at = 0;
    for (size_t n; (n = read_at(input, records, sizeof records, at) / sizeof *records) > 0;) {
        qsort(records, n, sizeof *records, compare);
        runs[made] = temporary(argv[3]);
        write_all(runs[made++], records, n * sizeof *records);
        at += (int64_t)(n * sizeof *records);
    }
    while (made - merged > WAYS) {
        int to = temporary(argv[3]);
        merge(runs + merged, WAYS, to);
        merged += WAYS;
        runs[made++] = to;
    }

    int output = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (output < 0)
        die(argv[2]);
    if (control)
        foretell_set_priority(output, -1);
    merge(runs + merged, (int)(made - merged), output);
    printf("%lld records\n", (long long)at / 8);
    free(runs);
    return 0;
}
