/* The program before it has a slice. It counts its accesses by itself and shares nothing, so that a program that finds in
 * memory what it reads pays for an addition a call, and for little at its begin. When it waits for its reads, it finds out
 * whether a slice could spare it that:
 *
 *   A wait for an access that does not follow the one before it in its file, or is the first one there, is a *jump*.
 *   So, half, is a wait for an open. The kernel knows of none before it is made.
 *   A wait *onwards*, in the middle of a file that is read in order, the kernel's readahead has shortened already.
 *
 * The slice starts when the program has waited for jumps, in more than one place, for as long as a slice costs: so a
 * program that never waits again has lost no more by it than it had lost already. A program that reads on in one file
 * gets a slice only when it does little else than to wait. What a slice costs is START_NS, and for each page that the
 * program has a copy of its entry, and of the page itself, if it writes there. */

#define START_NS 500000ull
#define START_NS_PER_KIB 60ull
/* A file that waits for its open and its first access is one place. */
#define MANY_PLACES 4
/* Waiting onwards for as long as this, and for more than one in so many of its time. */
#define ONWARDS_NS 20000000ull
#define ONWARDS_SHARE 3
/* Of accesses that are not all timed, one in so many; and after each wait so many are. */
#define SAMPLED 32
#define TIMED_AFTER_A_WAIT 64
/* An access that takes so long was not from memory: longer than any copy out of there, shorter than any device. */
#define SLOW_NS 60000
/* Bytes that are sent before there is a slice; beyond, the channel is made for them. */
#define EARLY_BYTES 2048

#define NOWHERE (-1ll)

/* One open file description of the program, as far as it is followed. */
struct real_file {
    struct file *slot;      /* NULL: there is no slice */
    atomic_uint references; /* descriptors and mappings */
    unsigned site, number;
    unsigned long long real; /* accesses, as long as there is no slice */
    char *path;
    long long position; /* of the stream, if one was made, when it was looked at last */
    FILE *hot;              /* it may have moved since then, within its buffer */
    long long hot_buffered; /* and this was left in there */
    struct window window;
    unsigned untimed;
    int descriptor;    /* the one that it was opened with */
    long long reached; /* where the last access ended; of read(2), if nobody has moved the descriptor */
};

/* Descriptors of the program that are followed; numbers above are left alone. */
#define DESCRIPTORS 1024

static struct real_file real_files[FILES]; /* each has the place of its slot */
static struct real_file *real_by_descriptor[DESCRIPTORS];
static atomic_uint real_opens[SITES];

static struct {
    atomic_uint lock;
    unsigned timed; /* so many accesses are yet to be */
    unsigned places;
    unsigned jumps;
    uint64_t jumped_ns, onwards_ns;
    long waits; /* of the process, when it waited last */
    unsigned char sent[EARLY_BYTES];
    unsigned sent_bytes;
} early = {.timed = TIMED_AFTER_A_WAIT};

/* The slice starts; slice_start.h. */
static void start_late(void);

/* Makes what program and slice share; false if there is no room for it. slice_start.h */
static bool share(void);

static bool is_timed(void)
{
    if (in_passing > 0) {
        in_passing--;
        return false;
    }
    in_passing = early.timed > 0 ? 0 : SAMPLED - 1;
    early.timed -= early.timed > 0;
    return true;
}

enum waited_for { OPENING, JUMP, ONWARDS };

/* The program's access has taken longer than any that is from memory. If the program has only been interrupted by
 * others, that means nothing (getrusage(2): voluntary context switches). */
static void note_early_wait(uint64_t waited_ns, enum waited_for what)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0 || usage.ru_nvcsw == early.waits)
        return;
    early.waits = usage.ru_nvcsw;
    early.timed = TIMED_AFTER_A_WAIT;
    in_passing = 0;
    if (what == ONWARDS) {
        early.onwards_ns += waited_ns;
    } else {
        early.jumped_ns += waited_ns;
        early.jumps++;
        early.places += what == JUMP ? 2 : 1;
    }
    uint64_t cost_ns = START_NS + START_NS_PER_KIB * (uint64_t)usage.ru_maxrss;
    uint64_t busy_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
                       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
    if ((early.places >= MANY_PLACES && early.jumped_ns >= cost_ns) ||
        (early.onwards_ns >= ONWARDS_NS + cost_ns && early.onwards_ns * (ONWARDS_SHARE - 1) >= busy_ns))
        start_late();
}

/* The file has been read up to here. */
static void reach(struct real_file *file, long long offset, long long bytes)
{
    file->reached = (offset == NOWHERE ? file->reached : offset) + bytes;
}

/* Does an access that has taken long not follow the one before it? */
static bool is_jump(const struct real_file *file, long long offset, long long bytes)
{
    long long page = page_bytes();
    if (file->reached < 0)
        return true;
    if (offset == NOWHERE)
        offset = lseek(file->descriptor, 0, SEEK_CUR) - bytes;
    return offset < file->reached - page || offset > file->reached + page;
}

/* An access has been made, and there is no slice. */
static void end_early_access(struct real_file *file, uint64_t begun_ns, long long offset, long long bytes)
{
    file->real++;
    if (begun_ns != 0) {
        int saved = errno;
        uint64_t waited_ns = now_ns() - begun_ns;
        bool waited = waited_ns >= SLOW_NS, jump = waited && is_jump(file, offset, bytes);
        if (waited && offset == NOWHERE)
            offset = lseek(file->descriptor, 0, SEEK_CUR) - bytes;
        reach(file, offset, bytes);
        if (shared != NULL)
            count(&shared->real_accesses, 1); /* for the statistics */
        if (waited)
            note_early_wait(waited_ns, jump ? JUMP : ONWARDS);
        errno = saved;
    } else {
        reach(file, offset, bytes);
    }
}

/* A place for a file that was opened, with one reference; NULL if there is none. */
static struct real_file *early_place(unsigned site, unsigned number)
{
    struct real_file *file = real_files;
    while (atomic_exchange(&early.lock, 1) != 0)
        sched_yield();
    while (file < real_files + FILES && atomic_load_explicit(&file->references, memory_order_relaxed) != 0)
        file++;
    if (file < real_files + FILES)
        atomic_store(&file->references, 1);
    atomic_store(&early.lock, 0);
    if (file == real_files + FILES)
        return NULL;
    file->slot = NULL;
    file->site = site;
    file->number = number;
    file->real = 0;
    return file;
}

/* What the program has counted by itself becomes what both count. What it has closed is left behind. */
static void share_counts(void)
{
    for (struct real_file *file = real_files; file < real_files + FILES; file++) {
        if (atomic_load(&file->references) == 0)
            continue;
        file->slot = &shared->files[file - real_files];
        take_slot(file->slot, (unsigned long long)file->site << 32 | file->number);
        atomic_store(&file->slot->real, file->real);
    }
    atomic_store(&shared->waited_ns, early.jumped_ns + early.onwards_ns);
    atomic_store(&shared->jumped_ns, early.jumped_ns);
    atomic_store(&shared->jumps, early.jumps);
    for (unsigned site = 0; site < SITES; site++)
        atomic_store(&shared->left_behind[site], atomic_load(&real_opens[site]));
}
