/* The slice as a process (the default) or as a thread.
 *
 * As a process it is a clone of the program made at the begin of main. It has no exit signal: wait(2) in
 * the program does not see it, and no SIGCHLD comes. It holds none of the program's files, so that pipes
 * end when the program ends; it writes nothing, dumps no core, runs no exit handler; SIGKILL comes to it
 * when the program dies, and a pipe tells it when the program becomes another one (execve(2)). A fault in
 * it is its end.
 *
 * As a thread it has descriptors of its own, but shares heap and libc with the program. A fault is caught and the thread left, which
 * contains wild reads; a slice that destroys the heap destroys the program's. */

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif

/* For faults on a used-up stack. */
#define FAULT_STACK_BYTES 65536
/* With a trace, the program waits at its exit until the slice has ended, so that both sequences are whole;
 * with statistics it waits for the last ones. */
#define TRACE_WAIT_NS 60000000000ull
#define STATS_WAIT_NS 1000000000ull

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#define FAULT_SIGNALS (sizeof fault_signals / sizeof fault_signals[0])

static struct {
    void (*slice)(int, char **, char **);
    int argc;
    char **argv, **envp;
    pid_t child;
    bool reaped;
    int stats_descriptor;
    int alive[2]; /* the program holds the writing end, and closes it by execve */
    sigjmp_buf thread_end;
    struct sigaction program_actions[FAULT_SIGNALS];
} start = {.stats_descriptor = -1, .alive = {-1, -1}};

static _Thread_local bool in_slice_thread;

static void leave_slice(void)
{
    note_usage();
    atomic_store(&shared->slice_ended, 1);
    if (!slice_is_thread)
        _exit(0);
    siglongjmp(start.thread_end, 1);
}

void foretell_slice_end(void)
{
    if (running())
        drain();
    leave_slice();
}

/* The program has become another one, or is gone. */
static void leave_if_orphaned(void)
{
    struct pollfd alive = {start.alive[0], 0, 0};
    if (!slice_is_thread && poll(&alive, 1, 0) == 1)
        leave_slice();
}

static void run_slice(void)
{
    start.slice(start.argc, start.argv, start.envp);
    foretell_slice_end();
}

/* ---- faults ---- */

static void fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (!slice_is_thread || in_slice_thread) {
        stop(FAULTED);
        leave_slice();
    }
    /* The program's own fault takes the course that it would have taken. */
    for (size_t i = 0; i < FAULT_SIGNALS; i++)
        if (fault_signals[i] == number)
            sigaction(number, &start.program_actions[i], NULL);
    if (info->si_code <= 0)
        raise(number); /* sent by somebody: nothing would repeat it */
}

static void catch_faults(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (size_t i = 0; i < FAULT_SIGNALS; i++)
        sigaction(fault_signals[i], &action, &start.program_actions[i]);
    if (!slice_is_thread)
        sigaction(SIGABRT, &action, NULL);
}

static void set_fault_stack(void)
{
    stack_t stack = {.ss_size = FAULT_STACK_BYTES};
    stack.ss_sp = mmap(NULL, FAULT_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp != MAP_FAILED)
        sigaltstack(&stack, NULL);
}

/* ---- as a process ---- */

static void close_between(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    for (unsigned fd = first; fd <= last && fd < 4096; fd++) /* Linux before 5.9 */
        close((int)fd);
}

/* Lets go of everything that the program was started with. */
static void drop_files(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(null, fd) < 0)
            close(fd);
    int keep[] = {trace_descriptor, start.alive[0], service.socket};
    enum { KEPT = sizeof keep / sizeof keep[0] };
    unsigned from = 3;
    for (int i = 0; i < KEPT; i++) {
        int next = INT_MAX; /* the lowest that is left */
        for (int j = 0; j < KEPT; j++)
            if (keep[j] >= (int)from && keep[j] < next)
                next = keep[j];
        if (next < INT_MAX) {
            close_between(from, (unsigned)next - 1);
            from = (unsigned)next + 1;
        }
    }
    close_between(from, ~0u);
}

static void become_slice(pid_t program)
{
    struct rlimit no_core = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != program)
        _exit(0);
    prctl(PR_SET_NAME, "foretell-slice");
    setrlimit(RLIMIT_CORE, &no_core);
    drop_files();
    greet_service();
    set_fault_stack();
    catch_faults();
    run_slice();
    _exit(0);
}

static void start_process(void)
{
    pid_t program = getpid();
    sigset_t all, before;
    if (pipe2(start.alive, O_CLOEXEC) == 0) {
        start.alive[0] = out_of_the_way(start.alive[0]);
        start.alive[1] = out_of_the_way(start.alive[1]);
    }
    connect_to_service();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
#ifdef THREAD_SANITIZER
    /* The sanitizer's own locks must know of it; the program's wait(2) then sees the slice. */
    pid_t child = fork();
#else
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
#endif
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child == 0)
        become_slice(program);
    hand_over_service();
    if (start.alive[0] >= 0)
        close(start.alive[0]);
    if (child < 0)
        stop(GAVE_UP);
    start.child = child;
}

/* ---- as a thread ---- */

static void *thread_main(void *nothing)
{
    in_slice_thread = true;
    shares_descriptors = true;
#ifndef THREAD_SANITIZER /* it takes descriptors of the same number for the same */
    /* A table of descriptors of its own: the program's numbers stay what they were. */
    if (unshare(CLONE_FILES) == 0) {
        shares_descriptors = false;
        drop_files();
    }
#endif
    set_fault_stack();
    if (sigsetjmp(start.thread_end, 1) == 0)
        run_slice();
    return nothing;
}

static void start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    catch_faults();
    /* The program's signals are for the program. */
    sigfillset(&all);
    for (size_t i = 0; i < FAULT_SIGNALS; i++)
        sigdelset(&all, fault_signals[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, thread_main, NULL) != 0)
        stop(GAVE_UP);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- the end ---- */

static bool slice_is_over(void)
{
    if (atomic_load(&shared->slice_ended))
        return true;
    if (start.child > 0 && !start.reaped) {
#ifdef THREAD_SANITIZER
        start.reaped = waitpid(start.child, NULL, WNOHANG) == start.child;
#else
        start.reaped = waitpid(start.child, NULL, WNOHANG | __WCLONE) == start.child;
#endif
    }
    return start.reaped || start.child < 0;
}

static void wait_for_slice(uint64_t most_ns)
{
    struct timespec nap = {0, 1000000};
    for (uint64_t begin = now_ns(); !slice_is_over() && now_ns() - begin < most_ns;)
        nanosleep(&nap, NULL);
}

static void write_stats(void)
{
    static const char *const reasons[] = {"", "diverged", "overflowed", "gave up", "faulted", "behind"};
    char line[1024];
    struct shared *s = shared;
    int length = snprintf(
        line, sizeof line,
        "{\"mode\":\"%s\",\"sink\":\"%s\",\"stopped\":\"%s\",\"real_accesses\":%llu,\"real_io_ns\":%llu,\"predictions\":%llu,"
        "\"compared\":%llu,\"expired\":%llu,\"skipped\":%llu,\"fetches\":%llu,\"requests\":%llu,"
        "\"request_bytes\":%llu,\"waits\":%llu,\"compute_ns\":%llu,\"service_ns\":%llu,\"slice_cpu_ns\":%llu,"
        "\"disclosed\":%llu,\"refused_files\":%llu,\"lead_ns\":%llu,\"dozes\":%llu,\"sectors_read\":%llu}\n",
        slice_is_thread ? "thread" : "fork",
        !atomic_load(&s->service)        ? "readahead"
        : !atomic_load(&s->service_lost) ? "service"
                                         : "service, then readahead",
        reasons[atomic_load(&s->stopped)], atomic_load(&s->real_accesses),
        atomic_load(&s->real_io_ns), atomic_load(&s->predictions), atomic_load(&s->compared),
        atomic_load(&s->expired), atomic_load(&s->skipped), atomic_load(&s->fetches), atomic_load(&s->requests),
        atomic_load(&s->request_bytes), atomic_load(&s->waits), atomic_load(&s->compute_ns),
        atomic_load(&s->service_ns), atomic_load(&s->slice_cpu_ns), atomic_load(&s->disclosed),
        atomic_load(&s->refused_files), atomic_load(&s->lead_ns), atomic_load(&s->dozes),
        atomic_load(&s->slice_sectors));
    ssize_t wrote = write(start.stats_descriptor, line, (size_t)length);
    (void)wrote;
}

static void finish(void)
{
    if (in_program == NULL || atomic_load(in_program) == 0)
        return; /* a child of the program */
    atomic_store(&shared->program_ended, 1);
    atomic_fetch_add(&shared->wake, 1);
    syscall(SYS_futex, &shared->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    if (trace_descriptor >= 0)
        wait_for_slice(TRACE_WAIT_NS);
    if (start.stats_descriptor >= 0) {
        wait_for_slice(STATS_WAIT_NS);
        write_stats();
    }
}

static void open_stats(void)
{
    const char *path = secure_getenv("FORETELL_SLICE_STATS");
    if (path == NULL || *path == 0)
        return;
    start.stats_descriptor =
        strcmp(path, "stderr") == 0 ? STDERR_FILENO
                                    : out_of_the_way(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

static void start_as(bool as_thread, void (*slice)(int, char **, char **), int argc, char **argv, char **envp)
{
    void *both = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *one = mmap(NULL, sizeof *in_program, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED || one == MAP_FAILED || madvise(one, sizeof *in_program, MADV_WIPEONFORK) != 0 ||
        atexit(finish) != 0)
        return;
    shared = both;
    in_program = one;
    slice_is_thread = as_thread;
    start.slice = slice;
    start.argc = argc;
    start.argv = argv;
    start.envp = envp;
    trace_open();
    open_stats();
    queue_setup();
    atomic_store(in_program, 1);
    if (slice_is_thread)
        start_thread();
    else
        start_process();
}

/* FORETELL_SLICE: "fork" or nothing, "thread", and anything else is off. */
static bool mode_is(const char *wanted)
{
    const char *mode = secure_getenv("FORETELL_SLICE");
    return strcmp(mode != NULL && *mode != 0 ? mode : "fork", wanted) == 0;
}

void foretell_slice_start(void (*slice)(int argc, char **argv, char **envp), int argc, char **argv, char **envp)
{
    bool as_thread = mode_is("thread");
    if (shared == NULL && (as_thread || mode_is("fork")))
        start_as(as_thread, slice, argc, argv, envp);
}

void foretell_slice_start_forked(void (*slice)(int argc, char **argv, char **envp), int argc, char **argv,
                                 char **envp)
{
    if (shared == NULL && mode_is("fork"))
        start_as(false, slice, argc, argv, envp);
}
