/*
 * A library is a guest in its program: whatever it does, it leaves signals, errno, environment, locale and the
 * mask of file modes as they were. Argument: a file.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <foretell.h>

#define SIGNALS 64
#define VARIABLES 4096

extern char **environ;

/* What the C library fills in of a sigaction; the end of its mask is whatever lay there. */
struct action {
    void (*handler)(int);
    int flags;
    char blocks[SIGNALS + 1];
};

struct state {
    struct action actions[SIGNALS + 1];
    sigset_t mask;
    stack_t stack;
    char *environment[VARIABLES];
    char **environ_pointer;
    char locale[256];
    mode_t creation_mask;
};

static void look(struct state *state)
{
    memset(state, 0, sizeof *state);
    for (int number = 1; number <= SIGNALS; number++) {
        struct sigaction found;
        if (sigaction(number, NULL, &found) < 0)
            continue;
        state->actions[number].handler = found.sa_handler;
        state->actions[number].flags = found.sa_flags;
        for (int blocked = 1; blocked <= SIGNALS; blocked++)
            state->actions[number].blocks[blocked] = sigismember(&found.sa_mask, blocked) == 1;
    }
    sigprocmask(SIG_SETMASK, NULL, &state->mask);
    sigaltstack(NULL, &state->stack);
    state->environ_pointer = environ;
    for (int at = 0; environ[at] != NULL && at < VARIABLES; at++)
        state->environment[at] = environ[at];
    strncpy(state->locale, setlocale(LC_ALL, NULL), sizeof state->locale - 1);
    state->creation_mask = umask(0);
    umask(state->creation_mask);
}

#define KEEPS_ERRNO(call)                                                                 \
    do {                                                                                  \
        errno = 4711;                                                                     \
        if ((call) < 0 || errno != 4711) {                                                \
            printf("line %d: %s leaves errno %d\n", __LINE__, #call, errno);              \
            failures++;                                                                   \
        }                                                                                 \
    } while (0)

#define STAYS(part)                                                                       \
    do {                                                                                  \
        if (memcmp(&before.part, &after.part, sizeof before.part) != 0) {                 \
            printf(#part " of the process has changed\n");                                \
            failures++;                                                                   \
        }                                                                                 \
    } while (0)

int main(int argc, char **argv)
{
    static struct state before, after;
    struct foretell_stats st;
    int failures = 0, value, fd;

    if (argc != 2 || (fd = open(argv[1], O_RDONLY)) < 0)
        return 2;
    look(&before);
    KEEPS_ERRNO(foretell_connected());
    KEEPS_ERRNO(foretell_set_priority(fd, 3));
    KEEPS_ERRNO(foretell_get_priority(fd, &value));
    KEEPS_ERRNO(foretell_set_policy(3, FORETELL_MRU));
    KEEPS_ERRNO(foretell_get_policy(3, &value));
    KEEPS_ERRNO(foretell_set_temppri(fd, 0, 1, 5));
    struct foretell_chunk list[] = { { fd, 0, 10 }, { fd, 20, 30 } };
    KEEPS_ERRNO(foretell_block_list(list, 2));
    KEEPS_ERRNO(foretell_file_list_start(1));
    KEEPS_ERRNO(foretell_file_list_end());
    KEEPS_ERRNO(foretell_disclose_fd(fd, 0, 0));
    KEEPS_ERRNO(foretell_done_with(fd, 0, 8192));
    KEEPS_ERRNO(foretell_cancel());
    KEEPS_ERRNO(foretell_stats(&st));
    look(&after);
    STAYS(actions);
    STAYS(mask);
    STAYS(stack);
    STAYS(environment);
    STAYS(environ_pointer);
    STAYS(locale);
    STAYS(creation_mask);
    printf("connected %d, %d failures\n", foretell_connected(), failures);
    return failures != 0;
}
