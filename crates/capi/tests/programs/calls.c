/* Every call once, with what it gives back, and the mistakes. Arguments: a file, a directory. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <foretell.h>

static int failures;

#define CHECK(what)                                             \
    do {                                                        \
        if (!(what)) {                                          \
            printf("line %d: %s\n", __LINE__, #what);           \
            failures++;                                         \
        }                                                       \
    } while (0)

#define FAILS(call, error) CHECK((errno = 0, (call) == -1 && errno == (error)))

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int fd = open(argv[1], O_RDONLY), directory = open(argv[2], O_RDONLY), value = 77;
    int written = open(argv[1], O_WRONLY);
    struct foretell_stats st;

    /* No proof that the file may be read. */
    FAILS(foretell_set_priority(written, 1), EBADF);
    CHECK(foretell_get_priority(fd, &value) == 0 && value == 0);
    CHECK(foretell_set_priority(fd, -5) == 0);
    CHECK(foretell_get_priority(fd, &value) == 0 && value == -5);
    CHECK(foretell_get_policy(-5, &value) == 0 && value == FORETELL_LRU);
    CHECK(foretell_set_policy(-5, FORETELL_MRU) == 0);
    CHECK(foretell_get_policy(-5, &value) == 0 && value == FORETELL_MRU);
    CHECK(foretell_set_temppri(fd, 2, 3, 9) == 0);
    CHECK(foretell_disclose_fd(fd, 100, 50) == 0);
    CHECK(foretell_disclose_fd(fd, 0, 0) == 0);
    CHECK(foretell_disclose_fd(fd, 8192, 0) == 0);
    CHECK(foretell_done_with(fd, 0, 8192) == 0);
    struct foretell_chunk list[] = { { fd, 0, 10 }, { fd, 20, 30 } };
    CHECK(foretell_block_list(list, 2) == 2);
    CHECK(foretell_block_list(NULL, 0) == 0);
    CHECK(foretell_file_list_start(1) == 0);
    int first = open(argv[1], O_RDONLY), second = open(argv[1], O_RDONLY);
    CHECK(foretell_file_list_end() == 1);
    CHECK(foretell_cancel() == 0);
    CHECK(foretell_stats(&st) == 0);
    CHECK(st.connected == (uint64_t)foretell_connected());
    CHECK(st.sent == (st.connected ? 11 : 0) && st.dropped == 0);

    FAILS(foretell_set_priority(-1, 1), EBADF);
    FAILS(foretell_set_priority(9999, 1), EBADF);
    FAILS(foretell_set_priority(directory, 1), EINVAL);
    FAILS(foretell_get_priority(fd, NULL), EFAULT);
    FAILS(foretell_get_policy(0, NULL), EFAULT);
    FAILS(foretell_set_policy(0, 255), EINVAL);
    FAILS(foretell_set_temppri(fd, 3, 2, 0), EINVAL);
    FAILS(foretell_disclose_fd(fd, -1, 1), EINVAL);
    FAILS(foretell_disclose_fd(fd, 0, -1), EINVAL);
    FAILS(foretell_disclose_fd(fd, INT64_MAX, INT64_MAX), EINVAL);
    FAILS(foretell_done_with(directory, 0, 1), EINVAL);
    FAILS(foretell_block_list(NULL, 1), EFAULT);
    struct foretell_chunk wrong[] = { { fd, 0, 10 }, { fd, 30, 20 } };
    FAILS(foretell_block_list(wrong, 2), EINVAL);
    FAILS(foretell_file_list_end(), EINVAL);
    FAILS(foretell_stats(NULL), EFAULT);
    for (value = 0; foretell_set_policy(value, FORETELL_MRU) == 0; value++)
        ;
    CHECK(errno == ENOSPC && value == 63);

    printf("connected %d, %d failures\n", foretell_connected(), failures);
    close(first);
    close(second);
    return failures != 0;
}
