/* Cases for the runtime, each a program and its slice written by hand: `cases NAME` in a folder of its own.
 * Prints what is wrong and exits with 1, or prints "good" and exits with 0. The runtime is included, so that a
 * case can look at what it keeps and can stand between it and the kernel. */
#define _GNU_SOURCE
#include <fcntl.h>

static long asked[4096][2];
static int asked_count;

/* Stands in for readahead(2) where a case wants to see the order of requests. */
static long record_readahead(int fd, long long offset, unsigned long bytes)
{
    (void)fd;
    if (asked_count < 4096) {
        asked[asked_count][0] = (long)offset;
        asked[asked_count++][1] = (long)bytes;
    }
    return 0;
}

#ifdef RECORD_READAHEAD
#define readahead record_readahead
#endif
#include "foretell_slice.c"

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            printf("cases.c:%d: not so: %s\n", __LINE__, #condition);            \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static void nothing(int argc, char **argv, char **envp)
{
    (void)argc;
    (void)argv;
    (void)envp;
}

static void make_file(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < bytes; i++)
        putc((int)((i * 2654435761u) >> 13 & 0xff), file);
    fclose(file);
}

static int wait_until(atomic_uint *word)
{
    for (int i = 0; i < 60000; i++) {
        if (atomic_load(word) != 0)
            return 1;
        usleep(1000);
    }
    return 0;
}

/* ---- every call, on both sides ---- */

static void calls_slice(int argc, char **argv, char **envp)
{
    char buffer[9000], *line = NULL;
    size_t room = 0;
    int number;
    nothing(argc, argv, envp);
    int fd = foretell_slice_open(1, "data", O_RDONLY);
    int copy = foretell_slice_dup(fd);
    struct iovec parts[2] = {{buffer, 10}, {buffer + 10, 5000}};
    CHECK(foretell_prefetch_read(fd, 100) == 100);
    CHECK(foretell_prefetch_read(copy, 9000) == 9000);
    CHECK(foretell_slice_lseek(fd, -50, SEEK_END) == 99950);
    CHECK(foretell_fetch_read(copy, buffer, 100) == 50);
    CHECK(foretell_prefetch_read(fd, 100) == 0);
    CHECK(foretell_prefetch_pread(fd, 7, 4095) == 7);
    CHECK(foretell_fetch_pread(fd, buffer, 4096, 8192) == 4096);
    CHECK(foretell_slice_lseek(fd, 3, SEEK_SET) == 3);
    CHECK(foretell_prefetch_readv(fd, parts, 2) == 5010);
    CHECK(foretell_fetch_preadv(fd, parts, 2, 40000) == 5010);
    CHECK(foretell_slice_close(fd) == 0);
    CHECK(foretell_prefetch_pread(copy, 1, 0) == 1);
    CHECK(foretell_slice_close(copy) == 0);
    CHECK(foretell_slice_open(1, "absent", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(foretell_slice_open(1, "data", O_RDONLY) == 3);

    FILE *stream = foretell_slice_fopen(2, "text", "r");
    CHECK(foretell_fetch_fscanf(stream, "%d", &number) == 1 && number == 0);
    CHECK(foretell_fetch_fgets(buffer, 100, stream) != NULL);
    CHECK(foretell_fetch_getline(&line, &room, stream) > 0);
    CHECK(foretell_prefetch_fread(1, 6000, stream) == 6000);
    CHECK(foretell_slice_ftell(stream) == 6000 + 4);
    CHECK(foretell_fetch_getc(stream) != EOF);
    CHECK(foretell_fetch_ungetc('x', stream) == 'x');
    CHECK(foretell_fetch_getc(stream) == 'x');
    foretell_slice_fseek(stream, 100, SEEK_END);
    CHECK(foretell_prefetch_getc(stream) == EOF && foretell_slice_feof(stream));
    foretell_slice_rewind(stream);
    while (foretell_prefetch_getc(stream) != EOF)
        ;
    CHECK(foretell_slice_fileno(stream) == 4);
    CHECK(foretell_slice_fclose(stream) == 0);

    fd = foretell_slice_open(3, "data", O_RDONLY);
    struct stat status;
    CHECK(foretell_slice_fstat(fd, &status) == 0 && status.st_size == 100000);
    const char *map = foretell_slice_mmap(NULL, 100000, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && foretell_slice_close(fd) == 0);
    for (int i = 0; i < 100000; i += 3000)
        FORETELL_PREFETCH_ACCESS(map[i]);
    CHECK(FORETELL_FETCH(map[70000]) == (char)((70000u * 2654435761u) >> 13 & 0xff));
    CHECK(foretell_slice_munmap((void *)(uintptr_t)map, 100000) == 0);
    free(line);
}

static void calls(char **argv)
{
    char buffer[9000], *line = NULL;
    size_t room = 0;
    int number;
    make_file("data", 100000);
    FILE *text = fopen("text", "w");
    for (int i = 0; i < 3000; i++)
        fprintf(text, "%d\n", i);
    fclose(text);
    foretell_slice_start(calls_slice, 1, argv, NULL);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    int copy = foretell_real_dup(fd);
    struct iovec parts[2] = {{buffer, 10}, {buffer + 10, 5000}};
    CHECK(foretell_real_read(fd, buffer, 100) == 100);
    CHECK(foretell_real_read(copy, buffer, 9000) == 9000);
    CHECK(lseek(fd, -50, SEEK_END) == 99950);
    CHECK(foretell_real_read(copy, buffer, 100) == 50);
    CHECK(foretell_real_read(fd, buffer, 100) == 0);
    CHECK(foretell_real_pread(fd, buffer, 7, 4095) == 7);
    CHECK(foretell_real_pread(fd, buffer, 4096, 8192) == 4096);
    CHECK(lseek(fd, 3, SEEK_SET) == 3);
    CHECK(foretell_real_readv(fd, parts, 2) == 5010);
    CHECK(foretell_real_preadv(fd, parts, 2, 40000) == 5010);
    CHECK(foretell_real_close(fd) == 0);
    CHECK(foretell_real_pread(copy, buffer, 1, 0) == 1);
    CHECK(foretell_real_close(copy) == 0);
    CHECK(foretell_real_open(1, "absent", O_RDONLY) == -1 && errno == ENOENT);
    // Not always the number from before: a thread that runs ahead may have it for a moment.
    CHECK(foretell_real_open(1, "data", O_RDONLY) >= 0);

    FILE *stream = foretell_real_fopen(2, "text", "r");
    CHECK(foretell_real_fscanf(stream, "%d", &number) == 1 && number == 0);
    CHECK(foretell_real_fgets(buffer, 100, stream) != NULL);
    CHECK(foretell_real_getline(&line, &room, stream) > 0);
    CHECK(foretell_real_fread(buffer, 1, 6000, stream) == 6000);
    CHECK(ftell(stream) == 6000 + 4);
    CHECK(foretell_real_getc(stream) != EOF);
    CHECK(foretell_real_ungetc('x', stream) == 'x');
    CHECK(foretell_real_getc(stream) == 'x');
    foretell_real_fseek(stream, 100, SEEK_END);
    CHECK(foretell_real_getc(stream) == EOF && feof(stream));
    foretell_real_rewind(stream);
    while (foretell_real_getc_unlocked(stream) != EOF)
        ;
    CHECK(foretell_real_fclose(stream) == 0);

    fd = foretell_real_open(3, "data", O_RDONLY);
    const char *map = foretell_real_mmap(NULL, 100000, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && foretell_real_close(fd) == 0);
    for (int i = 0; i < 100000; i += 3000)
        CHECK(FORETELL_REAL(map[i]) == (char)(((unsigned)i * 2654435761u) >> 13 & 0xff));
    (void)FORETELL_REAL(map[70000]);
    CHECK(foretell_real_munmap((void *)(uintptr_t)map, 100000) == 0);
    free(line);
    CHECK(atomic_load(&shared->stopped) == RUNNING);
}

/* ---- the slice goes wrong, the program does not ---- */

static void diverging_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    int fd = foretell_slice_open(1, "data", O_RDONLY);
    for (int i = 0; i < 20; i++)
        foretell_prefetch_pread(fd, 10, i == 13 ? 5 : i * 100);
    foretell_synchronize_wait(0);
    foretell_synchronize_wait(0);
}

static void diverges(char **argv)
{
    char buffer[10];
    make_file("data", 100000);
    foretell_slice_start(diverging_slice, 1, argv, NULL);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    /* Let the slice be ahead, whatever else the machine does. */
    for (int i = 0; i < 60000 && atomic_load(&shared->predictions) < 20; i++)
        usleep(1000);
    for (int i = 0; i < 20; i++) {
        CHECK(atomic_load(&shared->stopped) == (i <= 13 ? RUNNING : DIVERGED));
        CHECK(foretell_real_pread(fd, buffer, 10, i * 100) == 10);
    }
    foretell_real_close(fd);
    CHECK(atomic_load(&shared->compared) == 14);
}

static void closing_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    int fd = foretell_slice_open(1, "data", O_RDONLY);
    foretell_prefetch_pread(fd, 10, 0);
    foretell_prefetch_pread(fd, 10, 10);
    foretell_synchronize_wait(0);
}

/* Predictions that never come true are a divergence, too. */
static void closes_early(char **argv)
{
    char buffer[10];
    make_file("data", 100);
    foretell_slice_start(closing_slice, 1, argv, NULL);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    for (int i = 0; i < 60000 && atomic_load(&shared->predictions) < 2; i++)
        usleep(1000);
    foretell_real_pread(fd, buffer, 10, 0);
    CHECK(atomic_load(&shared->stopped) == RUNNING);
    foretell_real_close(fd);
    CHECK(atomic_load(&shared->stopped) == DIVERGED);
}

static volatile int zero;

__attribute__((noinline)) static int deeper(volatile char *above, int depth)
{
    volatile char frame[4096];
    frame[0] = above[0];
    return depth < 0 ? 0 : deeper(frame, depth + 1) + frame[0];
}

static const char *how_to_fail;

static void failing_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    if (strcmp(how_to_fail, "null") == 0)
        *(volatile int *)(uintptr_t)zero = 1;
    if (strcmp(how_to_fail, "stack") == 0)
        zero = deeper((volatile char *)"", 1);
    if (strcmp(how_to_fail, "divide") == 0)
        zero = (int)((unsigned)argc / (unsigned)zero);
    if (strcmp(how_to_fail, "abort") == 0)
        abort();
    if (strcmp(how_to_fail, "exit") == 0)
        exit(7);
    if (strcmp(how_to_fail, "stream") == 0)
        foretell_prefetch_getc(stdin);
    if (strcmp(how_to_fail, "descriptor") == 0)
        foretell_prefetch_read(0, 1);
}

static void fails(char **argv)
{
    char buffer[10];
    make_file("data", 1000);
    how_to_fail = argv[2];
    foretell_slice_start(failing_slice, 1, argv, NULL);
    for (int i = 0; i < 60000 && !slice_is_over(); i++)
        usleep(1000);
    CHECK(slice_is_over());
    int fd = foretell_real_open(1, "data", O_RDONLY);
    CHECK(foretell_real_read(fd, buffer, 10) == 10);
    CHECK(foretell_real_close(fd) == 0);
    foretell_send(1, buffer, 10);
    foretell_synchronize_signal(1);
}

/* A fault of the program's own stays one. */
static void own_fault(char **argv)
{
    foretell_slice_start(nothing, 1, argv, NULL);
    *(volatile int *)(uintptr_t)zero = 1;
}

/* ---- the slice as a neighbour ---- */

static void sleeping_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    foretell_synchronize_wait(9);
}

static atomic_uint children_signalled;

static void on_child(int number)
{
    (void)number;
    atomic_fetch_add(&children_signalled, 1);
}

/* wait(2) and SIGCHLD know the program's own children only, and those count nothing. */
static void own_children(char **argv)
{
    int status;
    signal(SIGCHLD, on_child);
    make_file("data", 1000);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    CHECK(wait(&status) == -1 && errno == ECHILD);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        foretell_real_read(fd, &byte, 1);
        exit(5);
    }
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    CHECK(wait(&status) == -1 && errno == ECHILD);
    CHECK(atomic_load(&children_signalled) == 1);
    CHECK(atomic_load(&shared->real_accesses) == 0);
    CHECK(atomic_load(&shared->slice_ended) == 0);
}

static void prints_and_ends(char **argv)
{
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    start_late();
    CHECK(start.child > 0);
    printf("slice %d\n", (int)start.child);
}

/* Becomes another program, which lives on: the slice must not. */
static void becomes_another(char **argv)
{
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    start_late();
    CHECK(start.child > 0);
    printf("slice %d\n", (int)start.child);
    fflush(stdout);
    execlp("sh", "sh", "-c", "read line; echo good", (char *)NULL);
}

static void first_descriptor(char **argv)
{
    make_file("data", 1000);
    int before = open("data", O_RDONLY);
    close(before);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    CHECK(foretell_real_open(1, "data", O_RDONLY) == before);
}

/* ---- its life is a part of the program's ---- */

static int processes_called(const char *name)
{
    int found = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[300], text[64] = "";
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        int parent = 0;
        if (file != NULL && fscanf(file, "%*d (%63[^)]) %*c %d", text, &parent) == 2)
            found += strcmp(text, name) == 0 && parent == getpid();
        if (file != NULL)
            fclose(file);
    }
    closedir(folder);
    return found;
}

/* When the call returns, there is no slice, not even a dead one, and the program goes on. */
static void is_put_away(char **argv)
{
    char byte;
    unsetenv("FORETELL_SLICE_TRACE"); /* which would have the program wait a minute for the slice's last prediction */
    make_file("data", 1000);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    start_late();
    for (int i = 0; i < 60000 && processes_called("foretell-slice") == 0; i++)
        usleep(1000);
    errno = 7;
    foretell_slice_leave();
    CHECK(errno == 7);
    CHECK(processes_called("foretell-slice") == 0);
    CHECK(waitpid(start.child, NULL, __WCLONE) == -1 && errno == ECHILD);
    CHECK(atomic_load(&shared->stopped) == LEFT);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    CHECK(foretell_real_read(fd, &byte, 1) == 1);
    foretell_slice_leave();
}

/* A child that still has the program's memory must not end the program's slice. */
static void child_of_vfork(char **argv)
{
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    pid_t child = vfork();
    if (child == 0) {
        foretell_slice_leave();
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(atomic_load(&shared->stopped) == RUNNING && !slice_is_over());
}

/* A program that changes who it is behind our back: the slice finds out while it works. */
static void working_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    for (;;) {
        int fd = foretell_slice_open(FORETELL_UNTRACKED, "data", O_RDONLY);
        foretell_slice_close(fd);
    }
}

static void changes_unseen(char **argv)
{
    make_file("data", 1000);
    foretell_slice_start(working_slice, 1, argv, NULL);
    usleep(50000);
    CHECK(atomic_load(&shared->slice_ended) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(wait_until(&shared->slice_ended));
}

/* The program meets no descriptor of ours, and closing all of them ends nothing. */
static void closes_everything(char **argv)
{
    make_file("data", 1000);
    for (int fd = 3; fd < 2048; fd++)
        close(fd); /* whatever the test was started with */
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    for (int fd = 3; fd < 2048; fd++)
        CHECK(fd == trace_descriptor || fd == stats_descriptor || (close(fd) == -1 && errno == EBADF));
    usleep(300000);
    CHECK(!slice_is_over() && atomic_load(&shared->stopped) == RUNNING);
}

/* What takes the number of a trace that the program has closed is the program's. */
static void closes_the_trace(char **argv)
{
    char byte;
    struct stat status;
    make_file("data", 1000);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    int fd = foretell_real_open(1, "data", O_RDONLY), own = open("own", O_RDWR | O_CREAT, 0600);
    CHECK(dup2(own, trace_descriptor) == trace_descriptor);
    CHECK(foretell_real_read(fd, &byte, 1) == 1);
    CHECK(fstat(own, &status) == 0 && status.st_size == 0);
}

static void allocating_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    for (int i = 0; i < 4000; i++) {
        char *memory = malloc(1 << 20);
        if (memory == NULL)
            foretell_slice_give_up();
        memset(memory, 1, 1 << 20);
    }
}

/* The slice takes no more memory than it may. */
static void is_limited(char **argv)
{
    setenv("FORETELL_SLICE_MEMORY_MIB", "16", 1);
    foretell_slice_start(allocating_slice, 1, argv, NULL);
    CHECK(wait_until(&shared->slice_ended));
    CHECK(atomic_load(&shared->stopped) == GAVE_UP);
}

static void freeing_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    for (int i = 0; i < 4000; i++) {
        char *memory = malloc(1 << 20);
        if (memory == NULL)
            foretell_slice_give_up();
        memset(memory, 1, 1 << 20);
        foretell_slice_free(memory);
    }
}

static void frees(char **argv)
{
    setenv("FORETELL_SLICE_MEMORY_MIB", "16", 1);
    foretell_slice_start(freeing_slice, 1, argv, NULL);
    CHECK(wait_until(&shared->slice_ended));
    CHECK(atomic_load(&shared->stopped) == RUNNING);
}

static void piping_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    struct stat before;
    CHECK(stat("data", &before) == 0);
    /* Between looking and opening the file has become a pipe: opening that would wait for a writer. */
    unlink("data");
    mkfifo("data", 0600);
    open_for_reading(AT_FDCWD, "data", 0, &before);
    CHECK(!"it was opened");
}

static void meets_a_pipe(char **argv)
{
    make_file("data", 1000);
    foretell_slice_start(piping_slice, 1, argv, NULL);
    CHECK(wait_until(&shared->slice_ended));
    CHECK(atomic_load(&shared->stopped) == GAVE_UP);
}

/* ---- channel ---- */

static void receiving_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    for (unsigned i = 0; i < 5000; i++) {
        unsigned char bytes[3000];
        size_t size = i * 7 % 3000;
        CHECK(foretell_receive(i % 3, bytes, sizeof bytes) == size);
        for (size_t j = 0; j < size; j++)
            CHECK(bytes[j] == (unsigned char)(i + j));
    }
    foretell_synchronize_wait(1);
}

static void sends(char **argv)
{
    static unsigned char bytes[3000];
    foretell_slice_start(receiving_slice, 1, argv, NULL);
    for (unsigned i = 0; i < 5000; i++) {
        for (size_t j = 0; j < i * 7 % 3000; j++)
            bytes[j] = (unsigned char)(i + j);
        /* The wait of a send is bounded in time, which a test must not depend on. */
        while (atomic_load(&shared->channel_sent) - atomic_load(&shared->channel_received) > CHANNEL_BYTES / 2)
            usleep(100);
        foretell_send(i % 3, bytes, i * 7 % 3000);
    }
    CHECK(atomic_load(&shared->stopped) == RUNNING);
    foretell_synchronize_signal(1);
    CHECK(wait_until(&shared->slice_ended));
    CHECK(atomic_load(&shared->channel_sent) == atomic_load(&shared->channel_received));
}

/* Nobody receives: the program goes on, the slice does not. */
static void overflows(char **argv)
{
    static char bytes[60000];
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    for (int i = 0; i < 100; i++)
        foretell_send(0, bytes, sizeof bytes);
    CHECK(atomic_load(&shared->stopped) == OVERFLOWED);
}

static void wrong_slice(int argc, char **argv, char **envp)
{
    int value;
    nothing(argc, argv, envp);
    foretell_receive(2, &value, sizeof value);
}

static void wrong_channel(char **argv)
{
    int value = 1;
    foretell_slice_start(wrong_slice, 1, argv, NULL);
    foretell_send(1, &value, sizeof value);
    CHECK(wait_until(&shared->stopped));
    CHECK(atomic_load(&shared->stopped) == GAVE_UP);
}

/* ---- limits ---- */

static void opening_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    for (int i = 0; i < 3000; i++) {
        int fd = foretell_slice_open(1, "data", O_RDONLY);
        foretell_prefetch_read(fd, 10);
        foretell_slice_close(fd);
    }
}

/* More files in turn than there are slots: the slice waits, and leaves some to the program. */
static void many_files(char **argv)
{
    char buffer[10];
    make_file("data", 1000);
    foretell_slice_start(opening_slice, 1, argv, NULL);
    for (int i = 0; i < 60000 && atomic_load(&shared->waits) == 0; i++)
        usleep(1000);
    CHECK(atomic_load(&shared->predictions) == FILES - RESERVED_FILES);
    for (int i = 0; i < 3000; i++) {
        int fd = foretell_real_open(1, "data", O_RDONLY);
        CHECK(foretell_real_read(fd, buffer, 10) == 10);
        foretell_real_close(fd);
    }
    CHECK(atomic_load(&shared->stopped) == RUNNING);
}

static void late_slice(int argc, char **argv, char **envp)
{
    foretell_synchronize_wait(0);
    opening_slice(argc, argv, envp);
}

/* The program is ahead by more files than there are slots: what it left behind is skipped, then it goes on. */
static void left_behind(char **argv)
{
    char buffer[10];
    make_file("data", 1000);
    foretell_slice_start(late_slice, 1, argv, NULL);
    for (int i = 0; i < 3000; i++) {
        int fd = foretell_real_open(1, "data", O_RDONLY);
        CHECK(foretell_real_read(fd, buffer, 10) == 10);
        if (i == 2990)
            foretell_synchronize_signal(0);
        for (int turn = 0; i == 2998 && turn < 60000 && atomic_load(&shared->predictions) < 3000; turn++)
            usleep(1000);
        foretell_real_close(fd);
    }
    CHECK(wait_until(&shared->slice_ended));
    CHECK(atomic_load(&shared->stopped) == RUNNING);
    CHECK(atomic_load(&shared->predictions) == 3000);
    CHECK(atomic_load(&shared->expired) >= 2991 && atomic_load(&shared->compared) >= 1);
}

/* The program has more files open than there are slots: it goes on, the slice does not. */
static void too_many_files(char **argv)
{
    make_file("data", 1000);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    for (unsigned i = 0; i < DESCRIPTORS; i++) {
        struct file *slot;
        slot_of(1, 1000000 + i, false, &slot);
    }
    CHECK(foretell_real_open(1, "data", O_RDONLY) >= 0);
    CHECK(atomic_load(&shared->stopped) == OVERFLOWED);
}

static void far_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    int fd = foretell_slice_open(1, "data", O_RDONLY);
    for (int i = 0; i < 3 * PREDICTIONS; i++)
        foretell_prefetch_pread(fd, 1, i % 1000);
}

/* The slice waits when it is a ring of predictions ahead. */
static void back_pressure(char **argv)
{
    char byte;
    make_file("data", 1000);
    foretell_slice_start(far_slice, 1, argv, NULL);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    for (int i = 0; i < 60000 && atomic_load(&shared->waits) == 0; i++)
        usleep(1000);
    CHECK(atomic_load(&shared->predictions) == PREDICTIONS);
    for (int i = 0; i < 3 * PREDICTIONS; i++) {
        CHECK(atomic_load(&shared->predictions) <= (unsigned)(PREDICTIONS + i));
        CHECK(foretell_real_pread(fd, &byte, 1, i % 1000) == 1);
    }
    foretell_real_close(fd);
    CHECK(atomic_load(&shared->stopped) == RUNNING);
}

/* ---- the rule, with numbers ---- */

static struct shared *pretend(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    queue.batch = FIRST_BATCH;
    queue.queue_threshold = 100;
    queue.time_threshold_ns = 50;
    queue.budget_bytes = 100000;
    worth.known = true; /* and not judged */
    CHECK(hold_life());
    return shared;
}

static void rule(char **argv)
{
    (void)argv;
    pretend();
    atomic_store(&shared->passed, 10);
    atomic_store(&shared->compute_ns, 20);
    atomic_store(&shared->service_ns, 30);
    device.requests_under_way = 2;
    /* C (j - i) - (K + 1) T = 20 * 7 - 3 * 30 = 50: just in time; one later it is 70. */
    CHECK(may_serve(17, 4096));
    CHECK(!may_serve(18, 4096));
    /* A longer queue at the device makes it due earlier: 20 * 8 - 4 * 30 = 40. */
    device.requests_under_way = 3;
    CHECK(may_serve(18, 4096));
    /* Queue_Threshold: 100 ahead, not 101. */
    atomic_store(&shared->compute_ns, 0);
    CHECK(may_serve(110, 4096));
    CHECK(!may_serve(111, 4096));
    /* The budget: 98304 of 100000 bytes are in use until prediction 12 has been passed. */
    use(12, 98304);
    CHECK(!may_serve(20, 4096));
    CHECK(may_serve(20, 1696));
    CHECK(may_serve(10, 4096)); /* the program stands there */
    atomic_store(&shared->passed, 12);
    CHECK(!may_serve(20, 4096));
    atomic_store(&shared->passed, 13);
    CHECK(may_serve(20, 4096));
    /* More than the budget, alone. */
    CHECK(may_serve(20, 200000));
}

/* Read backwards: asked for forwards, as one; what has been read in the meantime is skipped. */
static void batches(char **argv)
{
    (void)argv;
    pretend();
    queue.budget_bytes = 1 << 20;
    make_file("data", 40960);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    struct file *slot = handles[handle]->slot;
    for (int i = 9; i >= 0; i--)
        foretell_prefetch_pread(handle, 4096, i * 4096);
    foretell_prefetch_pread(handle, 100, 50); /* of a page that was just asked for */
    CHECK(queue.length == 10);
    atomic_store(&slot->real, 2); /* pages 9 and 8 */
    serve(true);
    CHECK(queue.length == 0);
    CHECK(atomic_load(&shared->skipped) == 2);
    CHECK(asked_count == 1);
    CHECK(asked[0][0] == 0 && asked[0][1] == 8 * 4096);
    CHECK(queue.used_bytes == 8 * 4096);
}

/* A gap is read as well where that takes less time than a request. */
static void gaps(char **argv)
{
    (void)argv;
    pretend();
    queue.budget_bytes = 1 << 20;
    make_file("data", 700000);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    /* At 100 bytes a microsecond: 12 KiB in 122 us. */
    atomic_store(&shared->service_ns, 123000);
    foretell_prefetch_pread(handle, 4096, 0);
    foretell_prefetch_pread(handle, 4096, 4 * 4096);
    foretell_prefetch_pread(handle, 4096, 9 * 4096);
    serve(true);
    CHECK(asked_count == 2);
    CHECK(asked[0][0] == 0 && asked[0][1] == 5 * 4096);
    CHECK(asked[1][0] == 9 * 4096 && asked[1][1] == 4096);
    /* However slow the device: 256 KiB, no more. */
    atomic_store(&shared->service_ns, 8000000);
    foretell_prefetch_pread(handle, 4096, 20 * 4096);
    foretell_prefetch_pread(handle, 4096, 85 * 4096);
    foretell_prefetch_pread(handle, 4096, 151 * 4096);
    asked_count = 0;
    serve(true);
    /* Pages 20 to 85, in requests of 128 KiB, and page 151. */
    CHECK(asked_count == 4);
    CHECK(asked[2][0] == 84 * 4096 && asked[2][1] == 2 * 4096);
    CHECK(asked[3][0] == 151 * 4096 && asked[3][1] == 4096);
}

/* On a disk with a head that moves, requests wait for others while the slice reads; on another device not. */
static void holding(char **argv)
{
    char byte;
    (void)argv;
    pretend();
    queue.budget_bytes = 1 << 20;
    queue.time_threshold_ns = UINT64_MAX;
    make_file("data", 400000);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    foretell_prefetch_pread(handle, 4096, 0);
    foretell_fetch_pread(handle, &byte, 1, 50000);
    CHECK(queue.length == 0 && asked_count == 1);
    /* An hour, so that the test does not depend on time. */
    atomic_store(&shared->service_ns, 3600 * 1000000000ull);
    foretell_prefetch_pread(handle, 4096, 8 * 4096);
    foretell_fetch_pread(handle, &byte, 1, 60000);
    foretell_prefetch_pread(handle, 4096, 4 * 4096);
    foretell_fetch_pread(handle, &byte, 1, 70000);
    CHECK(queue.length == 2 && asked_count == 1);
    serve(true);
    CHECK(queue.length == 0 && asked_count == 2);
    CHECK(asked[1][0] == 4 * 4096 && asked[1][1] == 5 * 4096);
}

/* Two batches at a time are enough for a device that transfers most of the time, or of which nothing is known; one
 * that positions is known by the time that a batch takes, and gets what there is. */
static void enough(char **argv)
{
    (void)argv;
    pretend();
    queue.queue_threshold = QUEUE;
    queue.time_threshold_ns = UINT64_MAX;
    queue.budget_bytes = 64 << 20;
    make_file("data", 9000000);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    device.whole_count = 2;
    for (int i = 0; i < 2000; i++)
        foretell_prefetch_pread(handle, 4096, i * 4096);
    serve(true);
    CHECK(queue.length == 2000 && asked_count == 0);
    device.kind = TRANSFERS;
    serve(true);
    CHECK(queue.length == 2000 && asked_count == 0);
    device.whole_count = 1;
    serve(true);
    CHECK(queue.length == 2000 - FIRST_BATCH && queue.batch == FIRST_BATCH);
    /* It is there (the file was just written), but took 1000 seconds. */
    device.batches[device.first_batch].asked_ns -= 1000 * 1000000000ull;
    look_at_batches();
    CHECK(device.kind == POSITIONS && device.batch_count == 0);
    serve(true);
    CHECK(queue.length < 2000 - FIRST_BATCH);
}

/* Around a read of the slice's own that takes long lies more that it needs, as long as that proves true. */
static void around(char **argv)
{
    char byte;
    (void)argv;
    pretend();
    make_file("data", 400000);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    struct description *description = handles[handle];
    read_around(description, 0);
    CHECK(description->parts == NULL); /* nothing has taken long */
    device.wait_ns = 8000000;
    for (int i = 0; i < 3; i++) {
        read_around(description, 5000);
        CHECK(pread(description->descriptor, &byte, 1, 5000) == 1);
    }
    CHECK(description->around_spared == 0); /* the same page again proves nothing */
    description->parts[0] |= AROUND_ASKED;
    read_around(description, 5000);
    CHECK(description->around_spared == 0);
    read_around(description, 9000);
    CHECK(description->around_spared == 1);
    device.wait_ns = 0;
    note_wait(5000000);
    note_wait(1000);
    CHECK(device.wait_ns == 5000000);
    note_wait(1000000);
    CHECK(device.wait_ns == 1000000);
    note_wait(9000000);
    CHECK(device.wait_ns == 2000000);
}

/* ---- the service: here its end of the socket ---- */

static int service_end = -1;

static void pretend_service(void)
{
    int ends[2];
    pretend();
    queue.queue_threshold = QUEUE;
    queue.budget_bytes = 1 << 20;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    service_socket = ends[0];
    service_end = ends[1];
    greet_service();
    CHECK(has_service());
}

/* The next frame, with its descriptor if it must have one; its length of body. */
static unsigned long hear_frame(unsigned kind, unsigned char *body, bool with_descriptor)
{
    unsigned char header[8];
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {header, sizeof header};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(service_end, &message, MSG_CMSG_CLOEXEC) == 8);
    CHECK((header[4] | header[5] << 8) == (int)kind);
    CHECK((message.msg_controllen > 0) == with_descriptor);
    unsigned long bytes = word_at(header);
    CHECK(read(service_end, body, bytes) == (ssize_t)bytes);
    return bytes;
}

static void check_entry(unsigned number, unsigned handle, unsigned long long begin, unsigned long long bytes)
{
    const atomic_ullong *entry = service.ring + SERVICE_HEADER_BYTES / 8 + number * SERVICE_ENTRY_WORDS;
    CHECK(atomic_load(&entry[0]) == 4 && atomic_load(&entry[1]) == handle);
    CHECK(atomic_load(&entry[2]) == begin && atomic_load(&entry[3]) == bytes);
}

/* What is predicted is disclosed, in this order; what has passed leaves; without the service it is up to us. */
static void discloses(char **argv)
{
    unsigned char body[16];
    (void)argv;
    pretend_service();
    make_file("data", 400000);
    CHECK(hear_frame(1, body, true) == 8 && word_at(body) == SERVICE_VERSION && word_at(body + 4) == SERVICE_ENTRIES);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    struct file *slot = handles[handle]->slot;
    foretell_prefetch_pread(handle, 4096, 5 * 4096);
    foretell_prefetch_pread(handle, 100, 5 * 4096 + 50); /* of the same page */
    foretell_prefetch_pread(handle, 8192, 0);
    CHECK(hear_frame(2, body, true) == 8 && word_at(body) == 1 && word_at(body + 4) == (unsigned)handle);
    CHECK(atomic_load(&service.ring[SERVICE_TAIL]) == 2 && asked_count == 0);
    check_entry(0, 1, 5 * 4096, 4096);
    check_entry(1, 1, 0, 8192);
    /* A service that sleeps is woken. */
    atomic_store(&service.ring[SERVICE_SLEEPS], 1);
    foretell_prefetch_pread(handle, 4096, 9 * 4096);
    CHECK(hear_frame(4, body, false) == 0 && atomic_load(&service.ring[SERVICE_SLEEPS]) == 0);
    CHECK(queue.length == 3 && queue.disclosed == 3);
    atomic_store(&slot->real, 2); /* the accesses to page 5 */
    serve(true);
    CHECK(queue.length == 2 && queue.disclosed == 2);
    close(service_end);
    serve(true);
    CHECK(!has_service() && atomic_load(&shared->service_lost) == 1);
    CHECK(queue.length == 0 && asked_count == 1 && asked[0][0] == 0 && asked[0][1] == 10 * 4096);
}

/* A file that the service does not take is prefetched by ourselves; one that is closed is forgotten when its entries
 * have been read. */
static void refused_and_forgotten(char **argv)
{
    unsigned char body[16];
    static const unsigned char error[16] = {8, 0, 0, 0, 0x02, 0x80, 0, 0, 36, 0, 0, 0, 1, 0, 0, 0};
    (void)argv;
    pretend_service();
    make_file("data", 400000);
    hear_frame(1, body, true);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    struct file *slot = handles[handle]->slot;
    foretell_prefetch_pread(handle, 4096, 0);
    hear_frame(2, body, true);
    CHECK(write(service_end, error, sizeof error) == sizeof error);
    serve(true);
    CHECK(has_service() && atomic_load(&shared->refused_files) == 1);
    foretell_prefetch_pread(handle, 4096, 7 * 4096);
    CHECK(asked_count == 1 && asked[0][0] == 7 * 4096 && atomic_load(&shared->disclosed) == 1);
    atomic_store(&slot->real, 2);
    foretell_slice_close(handle);
    serve(true);
    CHECK(queue.length == 0 && service.leaving == 1);
    serve(true);
    CHECK(service.leaving == 1); /* its entry has not been read */
    atomic_store(&service.ring[SERVICE_HEAD], 1);
    serve(true);
    CHECK(service.leaving == 0 && !service.files[0].named);
    CHECK(hear_frame(3, body, false) == 4 && word_at(body) == 1);
}

/* A full ring: the rest waits. Messages have an allowance that fills with time. */
static void full_ring(char **argv)
{
    (void)argv;
    pretend_service();
    make_file("data", 400000);
    int handle = foretell_slice_open(1, "data", O_RDONLY);
    service.tail = SERVICE_ENTRIES - 1;
    foretell_prefetch_pread(handle, 4096, 0);
    foretell_prefetch_pread(handle, 4096, 4096);
    CHECK(queue.length == 2 && queue.disclosed == 1);
    atomic_store(&service.ring[SERVICE_HEAD], 1);
    serve(true);
    CHECK(queue.disclosed == 2);
    /* An hour is worth more than may be saved up. */
    service.messages_left = 0;
    service.filled_ns = now_ns() - 3600 * 1000000000ull;
    CHECK(take_allowance() && service.messages_left == SERVICE_SAVED - 1);
}

/* ---- is it worth it ---- */

/* With numbers: of 1000 seconds, a lead of 10 is too small, and a wait of 30 is not. */
static void judging(char **argv)
{
    (void)argv;
    pretend();
    begin_window(0);
    worth.since_ns = now_ns() - 1000 * 1000000000ull;
    atomic_store(&shared->lead_ns, 10 * 1000000000ull);
    atomic_store(&shared->waited_ns, 10 * 1000000000ull);
    CHECK(is_behind() && !has_waited());
    atomic_store(&shared->lead_ns, 30 * 1000000000ull);
    atomic_store(&shared->waited_ns, 30 * 1000000000ull);
    CHECK(!is_behind() && has_waited());
    atomic_store(&shared->lead_ns, 0);
    device.sectors_prefetched = 8;
    CHECK(!is_behind());
}

/* What it may spend, with numbers. */
static void earns(char **argv)
{
    (void)argv;
    pretend();
    CHECK(earned_ns() == 0);
    /* Half of what the program has waited for jumps, and one in ONWARDS_EARNED of its other waits. */
    atomic_store(&shared->jumps, 10);
    atomic_store(&shared->jumped_ns, 10000000);
    atomic_store(&shared->waited_ns, 26000000);
    CHECK(earned_ns() == 5000000 + 1000000);
    /* What it has brought, at the program's 1 ms each, and later at the device's own time. */
    device.jumps = 4;
    CHECK(earned_ns() == 7000000 + 1000000);
    atomic_store(&shared->service_ns, 500000);
    CHECK(earned_ns() == 6000000 + 1000000);
    device.spared_ns = 2000000;
    device.onwards = 1000;
    CHECK(earned_ns() == 7000000 + 1000000 + 1000 * EARNED_PER_SECTOR_NS);
}

static void computing_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    for (volatile unsigned long turn = 0; turn < 1000000000000ul; turn++)
        continue;
}

/* One that computes, and makes no prediction at all, sleeps when it has spent what it was granted. */
static void computes(char **argv)
{
    unsetenv("FORETELL_SLICE_TRACE");
    make_file("data", 1000);
    foretell_slice_start(computing_slice, 1, argv, NULL);
    start_late();
    CHECK(wait_until(&shared->dozing));
    CHECK(atomic_load(&shared->stopped) == RUNNING);
}

static void wait_for(uint64_t waited_ns, enum waited_for what)
{
    usleep(1000); /* the kernel has seen that the program waited, which it does not if that is over at once */
    errno = 5;
    note_early_wait(waited_ns, what);
}

/* Waits for one file, and waits in the middle of files, start no slice; those for many places do, when there have been
 * enough of them. */
static void weighs_its_waits(char **argv)
{
    unsetenv("FORETELL_SLICE_TRACE");
    unsetenv("FORETELL_SLICE_STATS");
    make_file("data", 1000);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    CHECK(atomic_load(&early.unstarted) != 0 && shared == NULL);
    wait_for(1000000000, OPENING);
    wait_for(1000000000, JUMP);
    for (int i = 0; i < 100; i++)
        wait_for(1000, ONWARDS);
    CHECK(atomic_load(&early.unstarted) != 0 && shared == NULL);
    wait_for(1000000, JUMP);
    CHECK(atomic_load(&early.unstarted) == 0 && shared != NULL);
    /* What was waited before counts; the start itself may have waited for something on a busy machine. */
    CHECK(atomic_load(&shared->jumped_ns) >= 2001000000 && atomic_load(&shared->waited_ns) >= 2001100000);
}

/* A start changes no errno, whatever it tries. */
static void keeps_errno(char **argv)
{
    setenv("FORETELL_SOCKET", "/nowhere", 1);
    setenv("FORETELL_SLICE_STATS", "/nowhere/at/all", 1);
    errno = 0;
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    CHECK(errno == 0);
    make_file("data", 1000);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    char byte;
    errno = 0;
    CHECK(foretell_real_read(fd, &byte, 1) == 1 && foretell_real_close(fd) == 0);
    CHECK(errno == 0);
}

static void late_judged_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    foretell_synchronize_wait(0);
    int fd = foretell_slice_open(1, "data", O_RDONLY);
    for (int i = 0; i < 10000; i++) {
        count(&shared->waited_ns, 1000000000); /* as if the program had */
        foretell_prefetch_pread(fd, 1, i % 1000);
    }
    foretell_synchronize_wait(1);
}

/* A slice that is behind a program that waits ends. */
static void behind(char **argv)
{
    char byte;
    unsetenv("FORETELL_SLICE_TRACE"); /* which would have it predict all */
    make_file("data", 1000);
    foretell_slice_start(late_judged_slice, 1, argv, NULL);
    start_late(); /* as if the program had waited */
    int fd = foretell_real_open(1, "data", O_RDONLY);
    for (int i = 0; i < 10000; i++)
        CHECK(foretell_real_pread(fd, &byte, 1, i % 1000) == 1);
    foretell_synchronize_signal(0);
    /* It falls asleep on its way where its own start takes what it was granted: under a sanitizer. */
    for (int i = 0; i < 60000 && atomic_load(&shared->slice_ended) == 0; i++) {
        end_doze();
        usleep(1000);
    }
    CHECK(atomic_load(&shared->stopped) == BEHIND);
    CHECK(foretell_real_pread(fd, &byte, 1, 0) == 1);
    CHECK(foretell_real_close(fd) == 0);
}

/* What is mapped is counted by its pages, but not what was in memory when it was mapped: then both sides leave it out. */
static void maps_what_is_in_memory(char **argv)
{
    char own[2] = {1, 2};
    unsetenv("FORETELL_SLICE_TRACE");
    make_file("data", 100000);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    CHECK(!foretell_counts_mapped());
    int fd = foretell_real_open(1, "data", O_RDONLY), other = foretell_real_open(1, "data", O_RDONLY);
    struct real_file *file = real_file(fd), *counted = real_file(other);
    char *map = foretell_real_mmap(NULL, 100000, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && file->is_uncounted && !foretell_counts_mapped());
    CHECK(FORETELL_REAL(map[70000]) == map[70000] && file->real == 0);
    counted->is_mapped = true; /* as if it had not been in memory */
    char *second = foretell_real_mmap(NULL, 100000, PROT_READ, MAP_SHARED, other, 0);
    CHECK(second != MAP_FAILED && !counted->is_uncounted && foretell_counts_mapped());
    for (int i = 0; i < 100000; i += 1000)
        CHECK(FORETELL_REAL(second[i]) + FORETELL_REAL(own[i / 1000 % 2]) + FORETELL_REAL(map[i]) ==
              2 * map[i] + own[i / 1000 % 2]);
    CHECK(file->real == 0 && counted->real == 25);
    CHECK(foretell_real_munmap(second, 100000) == 0 && !foretell_counts_mapped());
    start_late();
    CHECK(atomic_load(&file->slot->is_uncounted) && !atomic_load(&counted->slot->is_uncounted));
    char *third = foretell_real_mmap(NULL, 100000, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(third != MAP_FAILED && !foretell_counts_mapped());
    CHECK(foretell_real_close(fd) == 0 && foretell_real_close(other) == 0);
}

static void judged_slice(int argc, char **argv, char **envp)
{
    nothing(argc, argv, envp);
    foretell_synchronize_wait(0);
    int fd = foretell_slice_open(1, "data", O_RDONLY);
    for (int i = 0; i < 20000; i++)
        foretell_prefetch_pread(fd, 1, i % 1000);
    foretell_synchronize_wait(1);
}

/* One that is behind a program that does not wait dozes, and catches up when it is woken. */
static void dozes(char **argv)
{
    char byte;
    unsigned i;
    unsetenv("FORETELL_SLICE_TRACE");
    make_file("data", 1000);
    foretell_slice_start(judged_slice, 1, argv, NULL);
    start_late(); /* as if the program had waited */
    int fd = foretell_real_open(1, "data", O_RDONLY);
    struct file *slot = early.places[fd].of_descriptor->slot;
    for (i = 0; i < 14000; i++)
        CHECK(foretell_real_pread(fd, &byte, 1, i % 1000) == 1);
    foretell_synchronize_signal(0);
    CHECK(wait_until(&shared->dozing));
    /* Fewer than SAMPLED: none of them is timed, but all are counted. */
    unsigned long long timed = atomic_load(&shared->real_accesses);
    for (; i < 14010; i++)
        CHECK(foretell_real_pread(fd, &byte, 1, i % 1000) == 1);
    CHECK(atomic_load(&slot->real) == i && atomic_load(&shared->real_accesses) == timed);
    /* As accesses of a program that waits would do; it may fall asleep again on its way. */
    for (int turn = 0; turn < 60000 && atomic_load(&slot->predicted) <= i; turn++) {
        count(&shared->jumped_ns, 100000000);
        end_doze();
        usleep(1000);
    }
    CHECK(atomic_load(&slot->predicted) > i);
    CHECK(atomic_load(&shared->stopped) == RUNNING && atomic_load(&shared->dozes) > 0);
    foretell_synchronize_signal(1);
}

static void late_starting_slice(int argc, char **argv, char **envp)
{
    int number;
    nothing(argc, argv, envp);
    /* What the program has changed in the meantime is as it was when main began. */
    CHECK(strcmp(argv[1], "starts_late") == 0 && access("data", R_OK) == 0);
    CHECK(slice_is_thread || getenv("MADE_LATER") == NULL);
    CHECK(getopt(argc, argv, "x") == -1 && optind == 1);
    foretell_receive(1, &number, sizeof number);
    CHECK(number == 7);
    int fd = foretell_slice_open(1, "data", O_RDONLY);
    for (int i = 0; i < 100; i++)
        foretell_prefetch_pread(fd, 1, i);
    foretell_slice_close(fd);
    foretell_synchronize_wait(1);
}

/* Without a wait no slice; with the first one it begins where the program began. */
static void starts_late(char **argv)
{
    char byte;
    int number = 7;
    unsetenv("FORETELL_SLICE_TRACE");
    setenv("FORETELL_SOCKET", "/nowhere", 1);
    make_file("data", 1000);
    mkdir("elsewhere", 0700);
    foretell_slice_start(late_starting_slice, 2, argv, NULL);
    foretell_send(1, &number, sizeof number);
    argv[1][0] = 'X';
    setenv("MADE_LATER", "1", 1);
    CHECK(slice_is_thread || chdir("elsewhere") == 0);
    int fd = foretell_real_open(1, slice_is_thread ? "data" : "../data", O_RDONLY);
    for (int i = 0; i < 50; i++)
        CHECK(foretell_real_pread(fd, &byte, 1, i) == 1);
    /* A loaded machine may have made one of them slow. */
    start_late();
    CHECK(atomic_load(&early.unstarted) == 0);
    /* It falls asleep on its way where its own start takes what it was granted: under a sanitizer. */
    for (int i = 0; i < 60000 && atomic_load(&shared->predictions) < 100; i++) {
        count(&shared->jumped_ns, 100000000);
        end_doze();
        usleep(1000);
    }
    CHECK(atomic_load(&shared->predictions) == 100);
    for (int i = 50; i < 100; i++)
        CHECK(foretell_real_pread(fd, &byte, 1, i) == 1);
    CHECK(foretell_real_close(fd) == 0);
    CHECK(atomic_load(&shared->stopped) == RUNNING && atomic_load(&shared->passed) == 100);
    foretell_synchronize_signal(1);
}

static void *a_thread(void *nothing_at_all)
{
    return nothing_at_all;
}

/* Some thread may hold a lock of malloc: it is too late. */
static void too_late(char **argv)
{
    pthread_t thread;
    char byte;
    unsetenv("FORETELL_SLICE_TRACE");
    setenv("FORETELL_SOCKET", "/nowhere", 1);
    make_file("data", 1000);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    CHECK(pthread_create(&thread, NULL, a_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    start_late();
    CHECK(start.child == 0 && atomic_load(&shared->stopped) == GAVE_UP);
    int fd = foretell_real_open(1, "data", O_RDONLY);
    CHECK(foretell_real_read(fd, &byte, 1) == 1 && foretell_real_close(fd) == 0);
}

/* ---- streams: what is taken out of the buffer here is what the C library would give ---- */

static void same_streams(FILE *one, FILE *other, unsigned turn)
{
    char a[300] = "", b[300] = "", *line_a = NULL, *line_b = NULL;
    size_t room_a = 0, room_b = 0;
    int x = 0, y = 0, end = turn >> 8 & 1 ? ' ' : '7';
    switch (turn % 10) {
    case 0:
        CHECK(foretell_real_getc(one) == getc(other));
        break;
    case 1:
        CHECK(foretell_real_fread(a, 1, turn % 200, one) == fread(b, 1, turn % 200, other));
        break;
    case 2:
        CHECK(foretell_real_fread(a, 7, turn % 40, one) == fread(b, 7, turn % 40, other));
        break;
    case 3:
        CHECK((foretell_real_fgets(a, (int)(turn % 90) + 1, one) == NULL) == (fgets(b, (int)(turn % 90) + 1, other) == NULL));
        break;
    case 4:
    case 8:
        /* Without room for the line, with too little, and with enough. */
        if (turn >> 9 & 1) {
            room_a = room_b = (turn >> 10) % 60 + 1;
            line_a = malloc(room_a);
            line_b = malloc(room_b);
        }
        x = (int)(turn % 10 == 4 ? foretell_real_getline(&line_a, &room_a, one)
                                 : foretell_real_getdelim(&line_a, &room_a, end, one));
        y = (int)(turn % 10 == 4 ? getline(&line_b, &room_b, other) : getdelim(&line_b, &room_b, end, other));
        CHECK(x == y && (x < 0 || memcmp(line_a, line_b, (size_t)x + 1) == 0));
        break;
    case 5:
        CHECK(foretell_real_fscanf(one, "%d", &x) == fscanf(other, "%d", &y) && x == y);
        break;
    case 6:
        x = foretell_real_getc(one);
        CHECK(x == getc(other) && (x == EOF || foretell_real_ungetc(x, one) == ungetc(x, other)));
        break;
    case 7:
        if (turn % 5 == 0)
            CHECK(foretell_real_fseek(one, turn * 37 % 50000, SEEK_SET) == fseek(other, turn * 37 % 50000, SEEK_SET));
        break;
    default:
        if (turn % 7 == 0)
            CHECK(foretell_real_fseek(one, turn % 50 - 25, SEEK_CUR) == fseek(other, turn % 50 - 25, SEEK_CUR));
    }
    CHECK(memcmp(a, b, sizeof a) == 0 && ftell(one) == ftell(other));
    CHECK(feof(one) == feof(other) && ferror(one) == ferror(other));
    free(line_a);
    free(line_b);
}

/* The position that the runtime believes in is the stream's, and its window holds what a hot stream has left. */
static void same_bytes(char **argv)
{
    FILE *text = fopen("text", "w");
    for (unsigned i = 0; i < 9000; i++)
        fprintf(text, i % 11 == 0 ? "%u\n\n" : i % 13 == 0 ? "%u word " : "%u\n", i * 2654435761u >> i % 23);
    fclose(text);
    foretell_slice_start(sleeping_slice, 1, argv, NULL);
    FILE *one = foretell_real_fopen(1, "text", "r"), *other = fopen("text", "r");
    unsigned hot = 0;
    for (unsigned i = 0, turn = 1; i < 60000; i++) {
        turn = turn * 1103515245 + 12345;
        same_streams(one, other, turn >> 8);
        struct real_file *file = real_stream(one);
        CHECK(file != NULL);
        if (is_hot(one)) {
            hot++;
            CHECK(file->hot == one && file->position + file->hot_buffered - buffered(one) == ftell(one));
            CHECK(ftell(one) >= file->window.begin && ftell(one) + buffered(one) <= file->window.end);
        }
        if (feof(one) && i % 3 == 0) {
            foretell_real_rewind(one);
            rewind(other);
        }
    }
    CHECK(slice_is_thread || hot > 10000);
    fclose(other);
    CHECK(foretell_real_fclose(one) == 0);
}

static const struct {
    const char *name;
    void (*run)(char **argv);
} cases[] = {
    {"calls", calls},
    {"diverges", diverges},
    {"closes_early", closes_early},
    {"fails", fails},
    {"own_fault", own_fault},
    {"own_children", own_children},
    {"prints_and_ends", prints_and_ends},
    {"becomes_another", becomes_another},
    {"maps_what_is_in_memory", maps_what_is_in_memory},
    {"first_descriptor", first_descriptor},
    {"is_put_away", is_put_away},
    {"child_of_vfork", child_of_vfork},
    {"changes_unseen", changes_unseen},
    {"closes_everything", closes_everything},
    {"closes_the_trace", closes_the_trace},
    {"is_limited", is_limited},
    {"frees", frees},
    {"meets_a_pipe", meets_a_pipe},
    {"sends", sends},
    {"overflows", overflows},
    {"wrong_channel", wrong_channel},
    {"many_files", many_files},
    {"left_behind", left_behind},
    {"too_many_files", too_many_files},
    {"back_pressure", back_pressure},
    {"rule", rule},
    {"batches", batches},
    {"gaps", gaps},
    {"holding", holding},
    {"enough", enough},
    {"around", around},
    {"discloses", discloses},
    {"refused_and_forgotten", refused_and_forgotten},
    {"full_ring", full_ring},
    {"judging", judging},
    {"earns", earns},
    {"computes", computes},
    {"weighs_its_waits", weighs_its_waits},
    {"keeps_errno", keeps_errno},
    {"behind", behind},
    {"dozes", dozes},
    {"starts_late", starts_late},
    {"too_late", too_late},
    {"same_bytes", same_bytes},
};

int main(int argc, char **argv)
{
    (void)asked;
    (void)record_readahead;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run(argv);
            printf("good\n");
            return 0;
        }
    }
    printf("no such case\n");
    return 1;
}
