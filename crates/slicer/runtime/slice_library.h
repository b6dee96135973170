/* Variables of the C library, and its free(3). The slice has them looked up when it starts: named here, the dynamic linker
 * would look them up at the begin of each program, slice or not. */

static struct {
    FILE **in, **out, **error;
    char ***environment;
    int *options; /* optind */
    void (*free)(void *memory);
} library;

static char ***environment_variable(void)
{
#ifdef FORETELL_STATIC
    return &environ;
#else
    return dlsym(RTLD_DEFAULT, "environ");
#endif
}

/* False if one of them cannot be found. */
static bool find_library(void)
{
    library.environment = environment_variable();
#ifdef FORETELL_STATIC
    library.in = &stdin;
    library.out = &stdout;
    library.error = &stderr;
    library.options = &optind;
    library.free = free;
#else
    void *function = dlsym(RTLD_DEFAULT, "free");
    library.in = dlsym(RTLD_DEFAULT, "stdin");
    library.out = dlsym(RTLD_DEFAULT, "stdout");
    library.error = dlsym(RTLD_DEFAULT, "stderr");
    library.options = dlsym(RTLD_DEFAULT, "optind");
    memcpy(&library.free, &function, sizeof function);
#endif
    return library.in != NULL && library.out != NULL && library.error != NULL && library.environment != NULL &&
           library.options != NULL && library.free != NULL;
}
