/* The slice as a process (the default) or as a thread.
 *
 * It starts when the program first waits for a read, an open, or a mapped file that is not in memory, not before: a
 * program that finds everything in memory pays for a mapping and a copy of its arguments. Until then it counts its
 * accesses, and what it sends is kept, so the slice begins where the program began and catches up. It begins with the
 * arguments, the environment and the current folder of that time, and with the state of getopt(3), rand(3) and
 * setlocale(3) that every program begins with. With a trace, or where the service is there to be told, it starts at
 * once. Once the program has threads it is too late: nobody knows which of them holds a lock of malloc(3).
 *
 * As a process it is a clone of the program made at the begin of main. It has no exit signal: wait(2) in
 * the program does not see it, and no SIGCHLD comes. It holds none of the program's files, so that pipes
 * end when the program ends; it writes nothing, dumps no core, runs no exit handler. A fault in it is its end.
 *
 * Its life is a part of the program's. At exit(3), and before calls that end the program, make it another one
 * (execve(2)) or change what it may do (setuid(2), chroot(2)), the program kills and reaps it, so nothing of it is
 * left when the call is made. When the program is killed, the kernel sends SIGKILL (PR_SET_PDEATHSIG). Where that
 * does not reach, as the program has become somebody else or another program behind our back, the kernel marks a
 * lock that the program holds (robust futexes, set_robust_list(2)), and the slice looks at it whenever it waits: no
 * descriptor is needed for that, and so none can be met or closed. slice_identity.h is the last resort.
 *
 * Its memory is bounded by RLIMIT_DATA: at the limit its malloc(3) fails, and the slice ends by that.
 *
 * As a thread it has descriptors of its own, but shares heap and libc with the program. A fault is caught and the
 * thread left, which contains wild reads; a slice that destroys the heap destroys the program's. For that reason
 * it frees nothing as a thread. */

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif

/* For faults on a used-up stack. */
#define FAULT_STACK_BYTES 65536
/* Longest time that the program waits for a slice that it has killed. A process dies in well under a millisecond,
 * unless it waits for a device that does not answer; the program must not wait with it. */
#define DEATH_WAIT_NS 200000000ull
/* Most MiB that the slice allocates beyond what the program had when it started. */
#define MEMORY_MIB 256
/* With a trace, the program waits at its exit until the slice has ended, so that both sequences are whole;
 * with statistics it waits for the last ones. */
#define TRACE_WAIT_NS 60000000000ull
#define STATS_WAIT_NS 1000000000ull

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#define FAULT_SIGNALS (sizeof fault_signals / sizeof fault_signals[0])

static struct {
    pid_t child;
    bool reaped;
    struct which_file stats_file;
    sigjmp_buf thread_end;
    struct sigaction program_actions[FAULT_SIGNALS];
} start LARGE;

static int stats_descriptor = -1;

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

/* The program has become another one, or somebody else, or is gone. */
static void leave_if_orphaned(void)
{
    if (!slice_is_thread && (pthread_mutex_trylock(&shared->alive) != EBUSY || program_has_changed()))
        leave_slice();
}

/* The state of the C library that the program has changed in the meantime becomes what it was. */
static void begin_anew(void)
{
    if (!early.is_late || slice_is_thread)
        return;
    char folder[PATH_MAX];
    if (early.folder[0] == 0 || getcwd(folder, sizeof folder) == NULL ||
        (strcmp(folder, early.folder) != 0 && chdir(early.folder) != 0))
        foretell_slice_give_up();
    *library.environment = early.envp;
    if (*library.options != 1)
        *library.options = 0; /* begin from the beginning (getopt(3), notes) */
    srand(1);
    setlocale(LC_ALL, "C");
}

static void begin_costs(void);

static void run_slice(void)
{
    begin_anew();
    begin_costs();
    early.slice(early.argc, early.argv, early.envp);
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

/* From here on it is looked at what the slice costs, also where it makes no prediction for long. */
static void begin_costs(void)
{
    struct sigaction action;
    struct itimerval every = {{0, LOOK_AT_COSTS_US}, {0, LOOK_AT_COSTS_US}};
    sigset_t look;
    worth.possible = trace_descriptor < 0 && access("/proc/self/io", F_OK) == 0;
    if (slice_is_thread || !worth.possible)
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = look_at_costs;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    sigemptyset(&look);
    sigaddset(&look, SIGPROF);
    sigprocmask(SIG_UNBLOCK, &look, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
}

static void catch_faults(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (size_t i = 0; i < FAULT_SIGNALS; i++)
        sigaction(fault_signals[i], &action, &start.program_actions[i]);
    /* What the program does on other signals is not for the slice to do. */
    struct sigaction other;
    for (int number = 1; !slice_is_thread && number < NSIG; number++)
        if (sigaction(number, NULL, &other) == 0 && other.sa_handler != SIG_IGN && other.sa_handler != SIG_DFL &&
            other.sa_sigaction != fault)
            signal(number, SIG_DFL);
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
    int keep[] = {trace_descriptor, service_socket};
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

/* Bytes of writable private memory that this process has, from the sixth field of /proc/self/statm; 0: unknown. */
static unsigned long long data_bytes(void)
{
    char text[128];
    unsigned long long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    if (sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
        return 0;
    return pages * (unsigned long long)sysconf(_SC_PAGESIZE);
}

static void limit_memory(void)
{
    unsigned long long has = data_bytes();
    unsigned long long most = has + (number_from("FORETELL_SLICE_MEMORY_MIB", MEMORY_MIB, 1 << 20) << 20);
    struct rlimit limit;
    if (has == 0 || getrlimit(RLIMIT_DATA, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < most))
        return;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_DATA, &limit);
}

static void become_slice(void)
{
    struct rlimit no_core = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != early.program)
        _exit(0);
    prctl(PR_SET_NAME, "foretell-slice");
    setrlimit(RLIMIT_CORE, &no_core);
    limit_memory();
    drop_files();
    remember_program(early.program);
    greet_service();
    set_fault_stack();
    catch_faults();
    run_slice();
    _exit(0);
}

/* Takes the lock that says that the program lives. */
static bool hold_life(void)
{
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    bool held = pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0 &&
                pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0 &&
                pthread_mutex_init(&shared->alive, &how) == 0 && pthread_mutex_lock(&shared->alive) == 0;
    pthread_mutexattr_destroy(&how);
    return held;
}

static void start_process(void)
{
    sigset_t all, before;
    if (!hold_life()) {
        stop(GAVE_UP);
        return;
    }
    if (!has_service())
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
        become_slice();
    hand_over_service();
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

/* ---- the begin ---- */

/* A copy of some strings in memory of ours: the program may change its own. NULL if there is no room. */
static char **copy_of(char **strings)
{
    size_t count = 0, bytes = 0;
    for (; strings != NULL && strings[count] != NULL; count++)
        bytes += strlen(strings[count]) + 1;
    char **copy = mmap(NULL, (count + 1) * sizeof *copy + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return NULL;
    char *text = (char *)(copy + count + 1);
    for (size_t i = 0; i < count; i++) {
        copy[i] = text;
        text = stpcpy(text, strings[i]) + 1;
    }
    return copy;
}

static void start_now(void)
{
    queue_setup();
    if (!find_library()) {
        stop(GAVE_UP);
        return;
    }
    if (slice_is_thread)
        start_thread();
    else
        start_process();
}

static void finish(void);

static bool share(void)
{
    if (shared != NULL)
        return true;
    void *both = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *one = mmap(NULL, sizeof *in_program, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED || one == MAP_FAILED || madvise(one, sizeof *in_program, MADV_WIPEONFORK) != 0 ||
        atexit(finish) != 0) {
        stop(GAVE_UP);
        return false;
    }
    shared = both;
    in_program = one;
    share_messages();
    atomic_store(in_program, 1);
    return true;
}

static void start_late(void)
{
    if (atomic_load_explicit(&early.unstarted, memory_order_relaxed) == 0)
        return;
    /* Not in a child of the program. With more rights than its user has (set-user-ID) a program has no slice. */
    if (getpid() != early.program || getauxval(AT_SECURE) != 0) {
        end_early();
        return;
    }
#ifdef FORETELL_OPEN_STREAMS
    if (!__libc_single_threaded) {
        stop(GAVE_UP);
        end_early();
        return;
    }
#endif
    if (!share() || !running()) {
        end_early();
        return; /* stopped before it began */
    }
    share_counts();
    end_early();
    early.is_counted = true;
    start_now();
}

/* ---- the end ---- */

static bool is_observed(void)
{
    return trace_descriptor >= 0 || stats_descriptor >= 0;
}

static bool is_reaped(void);

static void bury(void)
{
    if (!slice_is_thread && !start.reaped)
        is_reaped();
}

/* Is the slice buried, or was there none? Buries it if it is dead. */
static bool is_reaped(void)
{
    if (start.child > 0 && !start.reaped) {
#ifdef THREAD_SANITIZER
        start.reaped = waitpid(start.child, NULL, WNOHANG) != 0;
#else
        start.reaped = waitpid(start.child, NULL, WNOHANG | __WCLONE) != 0;
#endif
    }
    return start.reaped || start.child < 0 || (start.child == 0 && atomic_load(&early.unstarted) == 0);
}

static bool slice_is_over(void)
{
    return atomic_load(&shared->slice_ended) || (!slice_is_thread && is_reaped());
}

static void wait_for_slice(uint64_t most_ns)
{
    struct timespec nap = {0, 1000000};
    for (uint64_t begin = now_ns(); !slice_is_over() && now_ns() - begin < most_ns;)
        nanosleep(&nap, NULL);
}

/* Kills the slice and buries it; as a thread, tells it to end. */
static void put_away(void)
{
    struct timespec nap = {0, 20000};
    if (slice_is_thread || start.child <= 0 || is_reaped())
        return;
    kill(start.child, SIGKILL);
    for (uint64_t begin = now_ns(); !is_reaped() && now_ns() - begin < DEATH_WAIT_NS;)
        nanosleep(&nap, NULL);
}

void foretell_slice_leave(void)
{
    int saved = errno;
    /* A child of vfork(2) has our memory, and another number. */
    if (atomic_load(&early.unstarted) != 0) {
        if (getpid() == early.program) {
            stop(LEFT);
            end_early();
        }
    } else if (in_program != NULL && atomic_load(in_program) != 0 && getpid() == early.program) {
        if (trace_descriptor >= 0)
            wait_for_slice(TRACE_WAIT_NS); /* it ends there, too */
        stop(LEFT);
        put_away();
    }
    errno = saved;
}

/* The limits of getrlimit(2), as they were when the slice began or the program changed them last. */
static struct rlimit limits[RLIM_NLIMITS];

void foretell_slice_remember_limits(void)
{
    for (int resource = 0; resource < RLIM_NLIMITS; resource++)
        getrlimit((__rlimit_resource_t)resource, &limits[resource]);
}

void foretell_slice_limited(void)
{
    int saved = errno;
    bool lower = false;
    if (!counting())
        return;
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit now;
        if (getrlimit((__rlimit_resource_t)resource, &now) == 0)
            lower = lower || now.rlim_cur < limits[resource].rlim_cur || now.rlim_max < limits[resource].rlim_max;
    }
    if (lower) {
        foretell_send(CHANNEL_OF_THE_END, "", 1); /* the slice waits for what the call gave */
        foretell_slice_leave();
    } else {
        foretell_slice_remember_limits();
    }
    errno = saved;
}

static void write_stats(void)
{
    static const char *const reasons[] = {"", "diverged", "overflowed", "gave up", "faulted", "behind", "left"};
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
    ssize_t wrote = write(stats_descriptor, line, (size_t)length);
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
    if (stats_descriptor >= 0 && atomic_load(&early.unstarted) == 0)
        wait_for_slice(STATS_WAIT_NS);
    put_away();
    if (is_same_file(stats_descriptor, &start.stats_file))
        write_stats();
}

static void open_stats(void)
{
    const char *path = secure_getenv("FORETELL_SLICE_STATS");
    if (path == NULL || *path == 0)
        return;
    stats_descriptor =
        strcmp(path, "stderr") == 0 ? STDERR_FILENO
                                    : out_of_the_way(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    start.stats_file = which_file(stats_descriptor);
}
