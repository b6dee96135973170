/* A program that reads by a service. Arguments: its socket, and the URL of an object of 100,000 bytes as i % 251. Prints what the
 * pool has fetched. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <foretell-buffers.h>

static int failures;

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            printf("line %d: %s (%s)\n", __LINE__, #what, foretell_pool_error());      \
            failures++;                                                                \
        }                                                                              \
    } while (0)

static int right(const unsigned char *bytes, size_t length, uint64_t offset)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != (offset + i) % 251)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    static unsigned char buffer[200000];
    struct foretell_pool_options options = { .size = sizeof options, .timeout_ms = 20000 };
    struct foretell_pool *pool = foretell_pool_service(argv[1], &options);
    CHECK(pool != NULL);
    if (pool == NULL)
        return 1;
    CHECK(foretell_object_open(pool, "file:///no/such/file") == NULL && errno == ENOENT);
    struct foretell_object *object = foretell_object_open(pool, argv[2]);
    CHECK(object != NULL && foretell_object_length(object) == 100000);
    struct foretell_range order[] = { { object, 50000, 10000 }, { object, 0, 100000 } };
    CHECK(foretell_pool_disclose(pool, order, 2) == 2);
    CHECK(foretell_object_read_at(object, buffer, 10000, 50000) == 10000 && right(buffer, 10000, 50000));
    CHECK(foretell_object_read_at(object, buffer, sizeof buffer, 0) == 100000 && right(buffer, 100000, 0));
    CHECK(foretell_pool_cancel(pool) == 0);
    CHECK(foretell_pool_set_policy(pool, 1, 1) == 0 && foretell_object_set_priority(object, 1) == 0);
    struct foretell_view view;
    CHECK(foretell_object_view(object, 70000, &view) == 0 && view.length > 0);
    CHECK(right(view.data, view.length, 70000));
    foretell_view_release(&view);
    CHECK(foretell_object_set_temppri(object, 0, 0, -1) == 0);

    /* One of another pool. */
    options.budget_bytes = 1 << 20;
    struct foretell_pool *own = foretell_pool_new(&options);
    struct foretell_object *other = foretell_object_open(own, argv[2]);
    struct foretell_range wrong = { other, 0, 1 };
    CHECK(foretell_pool_disclose(pool, &wrong, 1) == -1 && errno == EINVAL);
    wrong.object = object;
    CHECK(foretell_pool_disclose(own, &wrong, 1) == -1 && errno == EINVAL);
    foretell_object_close(other);
    foretell_pool_free(own);

    struct foretell_pool_stats stats;
    CHECK(foretell_pool_stats(pool, &stats) == 0);
    printf("%d failures, %" PRIu64 " bytes fetched\n", failures, stats.fetched_bytes);
    foretell_pool_free(pool);
    foretell_object_close(object);
    return failures != 0;
}
