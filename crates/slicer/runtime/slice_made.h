/* Files that the program makes, changes, renames or removes, and opens again. What it will find there the slice cannot know
 * before; so it waits until the program has opened the file itself (the paper's section 3.2: the prefetch thread waits until
 * the computation thread has opened the file). Then all that the program wrote before is there. The program never waits.
 *
 * The slice comes to the calls that make files as the program does, makes nothing, and remembers names. A file has two: what
 * the program called it, and its folder with its last name. Each is one number in a table in which a later one takes the
 * place of another: who is forgotten is opened without waiting, and a prediction that is wrong then ends the slice; who
 * is taken for another one is waited for without need. */

/* Names that are remembered; a power of two. */
#define MADE 4096

static uint64_t made_by_name[MADE] LARGE, made_by_place[MADE] LARGE;
static bool anything_made;

/* A number for some bytes (Fowler, Noll, Vo: FNV-1a), never 0. */
static uint64_t hashed(uint64_t hash, const void *bytes, size_t count_of_bytes)
{
    for (const unsigned char *at = bytes, *end = at + count_of_bytes; at < end; at++)
        hash = (hash ^ *at) * 0x100000001b3u;
    return hash != 0 ? hash : 1;
}

#define HASH_OF_NOTHING 0xcbf29ce484222325u

/* The numbers of a name; that of its place is 0 if its folder is not there. */
static void names_of(int directory, const char *path, uint64_t *name, uint64_t *place)
{
    const char *last = strrchr(path, '/');
    char folder[PATH_MAX] = ".";
    struct stat status;
    last = last != NULL ? last + 1 : path;
    *name = hashed(HASH_OF_NOTHING, path, strlen(path));
    *place = 0;
    if ((size_t)(last - path) >= sizeof folder)
        return;
    if (last > path) {
        memcpy(folder, path, (size_t)(last - path));
        folder[last - path] = 0;
    }
    memset(&status, 0, sizeof status);
    if (fstatat(directory, folder, &status, 0) != 0)
        return;
    *place = hashed(HASH_OF_NOTHING, &status.st_dev, sizeof status.st_dev);
    *place = hashed(*place, &status.st_ino, sizeof status.st_ino);
    *place = hashed(*place, last, strlen(last));
}

static void note_made(int directory, const char *path)
{
    int saved = errno;
    uint64_t name, place;
    names_of(directory, path, &name, &place);
    made_by_name[name % MADE] = name;
    made_by_place[place % MADE] = place;
    anything_made = true;
    errno = saved;
}

static bool is_made(int directory, const char *path)
{
    uint64_t name, place;
    if (!anything_made)
        return false;
    names_of(directory, path, &name, &place);
    return made_by_name[name % MADE] == name || (place != 0 && made_by_place[place % MADE] == place);
}

void foretell_slice_makes_files(void)
{
    early.makes_files = true;
}

void foretell_slice_made(const char *path)
{
    if (path != NULL)
        note_made(AT_FDCWD, path);
}

/* Waits until the program has opened what the slice is about to open. Ends the slice where nobody says so. */
static void wait_for_open(unsigned site, unsigned number)
{
    if (number == 0)
        foretell_slice_end();
    leave_if_over();
    wait_for_word(&shared->opened[site], number);
}

/* When the program began, in ns of the clock that files are dated by; 0 if it cannot be told. proc(5): the 22nd field of
 * /proc/PID/stat, in ticks since the system was started. The second may stand in brackets and hold anything. */
static long long began_ns(void)
{
    char path[64], text[1024];
    unsigned long long begun = 0;
    struct timespec now, up;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)early.program);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    const char *rest = strrchr(text, ')');
    if (rest == NULL || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                               &begun) != 1)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &up);
    unsigned long long ticks_a_second = (unsigned long long)sysconf(_SC_CLK_TCK);
    return ((long long)now.tv_sec - (long long)up.tv_sec) * 1000000000 + now.tv_nsec - up.tv_nsec +
           (long long)(begun * (1000000000 / ticks_a_second));
}

/* Both clocks are coarse: that of files, and that of the program's begin. */
#define COARSE_NS 30000000

/* Has the file been changed since the program began, where that makes files? */
static bool is_changed(const struct stat *status)
{
    static long long since_ns = -1;
    if (since_ns < 0 && early.makes_files)
        since_ns = began_ns();
    long long changed_ns = (long long)status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec;
    return early.makes_files && since_ns > 0 && S_ISREG(status->st_mode) && changed_ns > since_ns + COARSE_NS;
}
