/* The begin of main: what is remembered until a slice starts, and what the environment asks for. */

/* Copies strings, one behind the other, to `text`; NULL if they or the pointers to them have no room. */
static char *keep(char **strings, char **pointers, char *text, const char *end)
{
    unsigned number = 0;
    for (; strings[number] != NULL; number++) {
        if (number == KEPT_STRINGS - 1)
            return NULL;
        pointers[number] = text;
        for (const char *from = strings[number]; text < end && (*text++ = *from) != 0; from++)
            continue;
        if (text == end)
            return NULL;
    }
    pointers[number] = NULL;
    return text;
}

/* What a slice that starts late begins with: the arguments, as the program may write to them, which strings the
 * environment has, and the folder. Nothing of the C library is called that it may not have been told of yet: that
 * would be looked up. */
static bool remember_begin(void)
{
    unsigned strings = 0;
    char **argv = early.arguments, **envp = early.environment;
    if (keep(early.argv, early.arguments, early.text, early.text + KEPT_BYTES) == NULL)
        argv = copy_of(early.argv);
    while (early.envp[strings] != NULL && strings < KEPT_STRINGS - 1) {
        early.environment[strings] = early.envp[strings];
        strings++;
    }
    if (early.envp[strings] != NULL)
        envp = copy_of(early.envp);
    if (argv == NULL || envp == NULL)
        return false;
    early.argv = argv;
    early.envp = envp;
    if (of_kernel(SYS_getcwd, (long)early.folder, sizeof early.folder) <= 0)
        early.folder[0] = 0;
    return early.is_late = true;
}

static bool is_set(const char *name)
{
    const char *value = secure_getenv(name);
    return value != NULL && *value != 0;
}

/* With a trace, and where a service is named, the slice starts at once; with statistics both sides are made at once. */
static void start_as(bool as_thread, bool is_asked, void (*slice)(int, char **, char **), int argc, char **argv, char **envp)
{
    early.program = (pid_t)of_kernel(SYS_getpid, 0, 0);
    early.timed = TIMED_AFTER_A_WAIT;
    if (as_thread)
        slice_is_thread = true;
    early.slice = slice;
    static char *none[] = {NULL};
    early.argc = argc;
    early.argv = argv != NULL ? argv : none;
    early.envp = envp;
    int saved = is_asked ? errno : 0; /* a program may print it though nothing has failed */
    bool observed = is_asked && (is_set("FORETELL_SLICE_TRACE") || is_set("FORETELL_SLICE_STATS"));
    if (observed) {
        trace_open();
        open_stats();
        early.has_statistics = stats_descriptor >= 0;
    }
    atomic_store(&early.unstarted, 1);
    early.is_counted = true;
    if ((observed || (is_asked && is_set("FORETELL_SOCKET"))) && !share()) {
        errno = saved;
        return;
    }
    if (is_asked && is_set("FORETELL_SOCKET") && !slice_is_thread)
        connect_to_service();
    if (trace_descriptor >= 0 || has_service() || !remember_begin()) {
        end_early();
        early.is_counted = true;
        start_now();
    }
    if (is_asked)
        errno = saved;
}

/* The environment of a program whose main does not name it: behind its arguments, where Linux puts it. */
static char **environment_of(char **argv, char **envp)
{
    static char *none[] = {NULL};
    if (envp != NULL)
        return envp;
    if (argv == NULL) {
        char ***named = environment_variable();
        return named != NULL ? *named : none;
    }
    while (*argv != NULL)
        argv++;
    return argv + 1;
}

/* Does the environment ask for anything? */
static bool is_asked(char **envp)
{
    for (; *envp != NULL; envp++)
        if ((*envp)[0] == 'F' && strncmp(*envp, "FORETELL_S", 10) == 0)
            return true;
    return false;
}

/* FORETELL_SLICE: "fork" or nothing, "thread", and anything else is off. */
static bool mode_is(const char *wanted)
{
    const char *mode = getenv("FORETELL_SLICE");
    return getauxval(AT_SECURE) == 0 && strcmp(mode != NULL && *mode != 0 ? mode : "fork", wanted) == 0;
}

void foretell_slice_start(void (*slice)(int argc, char **argv, char **envp), int argc, char **argv, char **envp)
{
    envp = environment_of(argv, envp);
    bool asked = is_asked(envp), as_thread = asked && mode_is("thread");
    if (shared == NULL && (!asked || as_thread || mode_is("fork")))
        start_as(as_thread, asked, slice, argc, argv, envp);
}

void foretell_slice_start_forked(void (*slice)(int argc, char **argv, char **envp), int argc, char **argv,
                                 char **envp)
{
    envp = environment_of(argv, envp);
    bool asked = is_asked(envp);
    if (shared == NULL && (!asked || mode_is("fork")))
        start_as(false, asked, slice, argc, argv, envp);
}
