/* Every call once, with what it gives back, and the mistakes. Arguments: a URL of 100,000 bytes as i % 251, one of an object that
 * is to be replaced, and the path of a file that is moved in its place. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <foretell-buffers.h>

static int failures;

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            printf("line %d: %s (%s)\n", __LINE__, #what, foretell_pool_error());      \
            failures++;                                                                \
        }                                                                              \
    } while (0)

#define FAILS(call, error) CHECK((errno = 0, (call) == -1 && errno == (error)))
#define FAILS_NULL(call, error) CHECK((errno = 0, (call) == NULL && errno == (error)))
#define SAYS(text) CHECK(strstr(foretell_pool_error(), text) != NULL && strchr(foretell_pool_error(), '\n') == NULL)

static int right(const unsigned char *bytes, size_t length, uint64_t offset)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != (offset + i) % 251)
            return 0;
    return 1;
}

static void *reads(void *object)
{
    unsigned char buffer[5000];
    for (int i = 0; i < 200; i++) {
        uint64_t at = (uint64_t)(i * 7919) % 95000;
        CHECK(foretell_object_read_at(object, buffer, sizeof buffer, at) == sizeof buffer);
        CHECK(right(buffer, sizeof buffer, at));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    static unsigned char buffer[200000];
    struct foretell_pool_options options = { .size = sizeof options, .budget_bytes = 1 << 20 };
    struct foretell_pool_stats stats;
    struct foretell_view view, other;

    CHECK(strcmp(foretell_pool_error(), "") == 0);
    FAILS_NULL(foretell_pool_new(NULL), EINVAL);
    options.size = 8;
    FAILS_NULL(foretell_pool_new(&options), EINVAL);
    SAYS("sizeof");
    options.size = sizeof options;
    options.budget_bytes = 100;
    FAILS_NULL(foretell_pool_new(&options), EINVAL);
    SAYS("budget: 100 bytes hold no part");
    options.budget_bytes = 1 << 20;
    options.disk_dir = "/tmp";
    FAILS_NULL(foretell_pool_new(&options), EINVAL);
    options.disk_dir = NULL;
    struct foretell_store_option wrong = { "nonsense", "1" };
    options.store = &wrong, options.n_store = 1;
    struct foretell_pool *odd = foretell_pool_new(&options);
    FAILS_NULL(foretell_object_open(odd, "s3://bucket/key"), EINVAL);
    SAYS("no option 'nonsense'");
    foretell_pool_free(odd);
    options.store = NULL, options.n_store = 0;

    options.part_bytes = 4096, options.timeout_ms = 20000;
    struct foretell_pool *pool = foretell_pool_new(&options);
    CHECK(pool != NULL);
    FAILS_NULL(foretell_object_open(pool, "nonsense"), EINVAL);
    FAILS_NULL(foretell_object_open(pool, "ftp://a/b"), EINVAL);
    SAYS("unknown scheme");
    FAILS_NULL(foretell_object_open(pool, NULL), EINVAL);
    FAILS_NULL(foretell_object_open(NULL, argv[1]), EINVAL);
    FAILS_NULL(foretell_object_open(pool, "\xff"), EINVAL);
    FAILS_NULL(foretell_object_open(pool, "file:///no/such/file"), ENOENT);
    SAYS("no such object");
    struct foretell_object *object = foretell_object_open(pool, argv[1]);
    CHECK(object != NULL && foretell_object_length(object) == 100000);

    errno = 77;
    CHECK(foretell_object_read_at(object, buffer, 10000, 5) == 10000 && right(buffer, 10000, 5));
    CHECK(errno == 77);
    CHECK(foretell_object_read_at(object, buffer, sizeof buffer, 0) == 100000 && right(buffer, 100000, 0));
    CHECK(foretell_object_read_at(object, buffer, sizeof buffer, 99990) == 10 && right(buffer, 10, 99990));
    CHECK(foretell_object_read_at(object, buffer, sizeof buffer, 100000) == 0);
    CHECK(foretell_object_read_at(object, buffer, sizeof buffer, UINT64_MAX) == 0);
    CHECK(foretell_object_read_at(object, NULL, 0, 0) == 0);
    FAILS(foretell_object_read_at(object, NULL, 1, 0), EINVAL);
    FAILS(foretell_object_read_at(NULL, buffer, 1, 0), EINVAL);

    CHECK(foretell_object_view(object, 5000, &view) == 0 && view.length == 8192 - 5000);
    CHECK(right(view.data, view.length, 5000));
    CHECK(foretell_object_view(object, 99999, &other) == 0 && other.length == 1 && right(other.data, 1, 99999));
    CHECK(foretell_pool_stats(pool, &stats) == 0 && stats.leased_bytes == 4096 + 100000 % 4096);
    foretell_view_release(&other);
    CHECK(other.data == NULL);
    foretell_view_release(&other);
    foretell_view_release(NULL);
    FAILS(foretell_object_view(object, 100000, &other), EINVAL);
    FAILS(foretell_object_view(object, 0, NULL), EINVAL);

    struct foretell_range order[] = { { object, 90000, 100 }, { object, 0, 4096 } };
    CHECK(foretell_pool_disclose(pool, order, 2) == 2);
    CHECK(foretell_pool_stats(pool, &stats) == 0 && stats.disclosed_ahead == 2 && stats.objects == 1);
    CHECK(foretell_pool_cancel(pool) == 0);
    CHECK(foretell_pool_stats(pool, &stats) == 0 && stats.disclosed_ahead == 0);
    CHECK(foretell_pool_disclose(pool, NULL, 0) == 0);
    FAILS(foretell_pool_disclose(pool, NULL, 1), EINVAL);
    struct foretell_range beyond = { object, 99999, 2 }, none = { NULL, 0, 1 };
    FAILS(foretell_pool_disclose(pool, &beyond, 1), EINVAL);
    SAYS("reach behind its end");
    FAILS(foretell_pool_disclose(pool, &none, 1), EINVAL);

    CHECK(foretell_object_set_priority(object, 2) == 0);
    CHECK(foretell_pool_set_policy(pool, 2, 1) == 0);
    FAILS(foretell_pool_set_policy(pool, 2, 99), EINVAL);
    CHECK(foretell_object_set_temppri(object, 0, 4096, -1) == 0);
    FAILS(foretell_object_set_temppri(object, 0, 100001, -1), EINVAL);
    CHECK(foretell_object_done_with(object, 0, 0) == 0);
    /* But for what the view holds. */
    do {
        /* Who has fetched a part may hold it for a moment longer. */
        CHECK(foretell_pool_stats(pool, &stats) == 0);
    } while (stats.memory_bytes > 4096);
    CHECK(stats.memory_bytes == 4096);
    CHECK(right(view.data, view.length, 5000));

    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, reads, object) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    /* An object that is replaced is an error, and a new one when it is opened again. */
    struct foretell_object *changes = foretell_object_open(pool, argv[2]);
    CHECK(changes != NULL && foretell_object_read_at(changes, buffer, 10, 0) == 10);
    CHECK(foretell_object_done_with(changes, 0, 0) == 0);
    CHECK(rename(argv[3], strstr(argv[2], "://") + 3) == 0);
    FAILS(foretell_object_read_at(changes, buffer, 10, 0), ESTALE);
    foretell_object_close(changes);
    changes = foretell_object_open(pool, argv[2]);
    CHECK(changes != NULL && foretell_object_read_at(changes, buffer, 10, 0) == 10);
    foretell_object_close(changes);

    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int before = failures;
        FAILS(foretell_object_read_at(object, buffer, 10, 0), EPERM);
        FAILS(foretell_pool_cancel(pool), EPERM);
        foretell_view_release(&view);
        foretell_object_close(object);
        foretell_pool_free(pool);
        fflush(stdout);
        _exit(failures != before);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    setenv("FORETELL_BUFFERS", "/no/such/socket", 1);
    FAILS_NULL(foretell_pool_service(NULL, &options), ENOTCONN);
    FAILS_NULL(foretell_pool_service("/no/such", &options), ENOTCONN);

    /* The pool first: what is held of it stays. */
    foretell_pool_free(pool);
    CHECK(right(view.data, view.length, 5000));
    foretell_view_release(&view);
    foretell_object_close(object);
    foretell_object_close(NULL);
    foretell_pool_free(NULL);
    printf("%d failures\n", failures);
    return failures != 0;
}
