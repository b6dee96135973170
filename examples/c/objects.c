/*
 * Objects of a store, read in a shuffled order that is disclosed: an epoch of a loader, in C. Prints a sum of all bytes.
 *
 *   cc objects.c $(pkg-config --cflags --libs foretell-buffers)
 *   ./a.out 256 s3://bucket/a s3://bucket/b ...      (credentials and AWS_ENDPOINT from the environment)
 *
 * Each object is opened once, all that will be read is said in its order, and read without a copy: the pool's threads fetch
 * ahead, many requests at a time, while this one thread adds up.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <foretell-buffers.h>

static void fail(void)
{
    fprintf(stderr, "objects: %s\n", foretell_pool_error());
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: objects MEBIBYTES URL...\n");
        return 2;
    }
    struct foretell_pool_options options = { .size = sizeof options };
    options.budget_bytes = (uint64_t)strtoull(argv[1], NULL, 10) << 20;
    struct foretell_pool *pool = foretell_pool_new(&options);
    if (pool == NULL)
        fail();

    size_t n = (size_t)argc - 2;
    struct foretell_range *order = calloc(n, sizeof *order);
    if (order == NULL)
        return 1;
    for (size_t i = 0; i < n; i++) {
        order[i].object = foretell_object_open(pool, argv[i + 2]);
        if (order[i].object == NULL)
            fail();
        order[i].length = foretell_object_length(order[i].object);
    }
    /* Fisher and Yates, with a generator of its own, so that each run is the same. */
    uint64_t state = 88172645463325252u;
    for (size_t i = n; i > 1; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t j = state % i;
        struct foretell_range swapped = order[i - 1];
        order[i - 1] = order[j], order[j] = swapped;
    }
    if (foretell_pool_disclose(pool, order, n) < 0)
        fail();

    uint64_t sum = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct foretell_view view;
        for (uint64_t at = 0; at < order[i].length; at += view.length) {
            /* A view is given back before the next one is asked for, so that the length is copied. */
            if (foretell_object_view(order[i].object, at, &view) != 0)
                fail();
            const unsigned char *data = view.data;
            for (size_t k = 0; k < view.length; k++)
                sum = sum * 31 + data[k];
            size_t length = view.length;
            foretell_view_release(&view);
            view.length = length;
            bytes += length;
        }
    }
    printf("%" PRIu64 " bytes, sum %" PRIx64 "\n", bytes, sum);
    for (size_t i = 0; i < n; i++)
        foretell_object_close(order[i].object);
    free(order);
    foretell_pool_free(pool);
    return 0;
}
