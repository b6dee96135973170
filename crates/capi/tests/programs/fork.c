/*
 * A child of fork is a client of its own, whatever its parent's threads were doing: it finds nothing set, and what
 * it sets is its own. Argument: a file.
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <foretell.h>

#define CHILDREN 50
#define THREADS 3

static int fd;
static volatile int stop;

/* Keeps the library's lock busy, so that many a fork finds it held. */
static void *busy(void *unused)
{
    struct foretell_chunk list[64];
    for (int i = 0; i < 64; i++)
        list[i] = (struct foretell_chunk){ fd, i, i + 1 };
    while (!stop)
        foretell_block_list(list, 64);
    return unused;
}

static int child(void)
{
    int prio = 77;
    /* A child that waits for ever ends, and the test fails. */
    alarm(60);
    if (foretell_get_priority(fd, &prio) != 0 || prio != 0)
        return 1;
    if (foretell_set_priority(fd, 4) != 0 || foretell_get_priority(fd, &prio) != 0 || prio != 4)
        return 2;
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int prio = 0, failures = 0;

    if (argc != 2 || (fd = open(argv[1], O_RDONLY)) < 0)
        return 2;
    foretell_set_priority(fd, 3);

    /* One child while nothing else runs, which the test looks at closely. */
    pid_t quiet = fork();
    if (quiet == 0)
        _exit(child());
    int status;
    waitpid(quiet, &status, 0);
    failures += status != 0;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, busy, NULL);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            failures++;
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    foretell_get_priority(fd, &prio);
    printf("priority %d, %d failures\n", prio, failures);
    return failures != 0 || prio != 3;
}
