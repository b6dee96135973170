/* The program before it has a slice. It counts its accesses by itself and shares nothing, so that a program that finds in
 * memory what it reads pays for an addition a call, and for little at its begin. When it waits for its reads, it finds out
 * whether a slice could spare it that:
 *
 *   A wait for an access that does not follow the one before it in its file, or is the first one there, is a *jump*.
 *   So, half, is a wait for an open. The kernel knows of none before it is made.
 *   A wait *onwards*, in the middle of a file that is read in order, the kernel's readahead has shortened already.
 *
 * The slice starts when the program has waited for jumps, in more than one place, for longer than a slice costs: a few
 * hundred microseconds, of which START_NS is many times as much, and for each page that the program has a copy of its
 * entry, and of the page itself, if it writes there. So a program that never waits again loses a few hundredths, at most.
 * A program that reads on in one file gets a slice only when it does little else than to wait, and for long. */

#define START_NS 5000000ull
#define START_NS_PER_KIB 60ull
/* A file that waits for its open and its first access is one place. */
#define MANY_PLACES 4
/* Waiting onwards for as long as this, and for more than one in so many of its time. */
#define ONWARDS_NS 200000000ull
#define ONWARDS_SHARE 3
/* Of accesses that are not all timed, one in so many; and after each wait so many are. */
#define SAMPLED 32
#define TIMED_AFTER_A_WAIT 64
/* An access that takes so long was not from memory: longer than any copy out of there, shorter than any device. */
#define SLOW_NS 60000
/* The slice starts; slice_start.h. */
static void start_late(void);

/* Makes what program and slice share; false if there is no room for it. slice_start.h */
static bool share(void);

/* Says to the slice where the program has a file that it may change; slice_real.h */
static void show_file(struct real_file *file);

static bool is_timed(void)
{
    if (early.in_passing > 0) {
        early.in_passing--;
        return false;
    }
    early.in_passing = early.timed > 0 ? 0 : SAMPLED - 1;
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
    early.in_passing = 0;
    if (what == ONWARDS) {
        early.onwards_ns += waited_ns;
    } else {
        early.jumped_ns += waited_ns;
        early.jumps++;
        early.places_waited_for += what == JUMP ? 2 : 1;
    }
    uint64_t cost_ns = START_NS + START_NS_PER_KIB * (uint64_t)usage.ru_maxrss;
    uint64_t busy_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
                       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
    if ((early.places_waited_for >= MANY_PLACES && early.jumped_ns >= cost_ns) ||
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
static void end_early_access(struct real_file *file, uint64_t begun, long long offset, long long bytes)
{
    file->real++;
    if (begun != 0) {
        int saved = errno;
        uint64_t waited_ns = (ticks() - begun) / TICKS_PER_NS;
        bool waited = waited_ns >= SLOW_NS, jump = waited && is_jump(file, offset, bytes);
        if (waited && offset == NOWHERE)
            offset = lseek(file->descriptor, 0, SEEK_CUR) - bytes;
        reach(file, offset, bytes);
        if (early.has_statistics)
            count(&shared->real_accesses, 1);
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
    struct place *place = early.places;
    while (atomic_exchange(&early.lock, 1) != 0)
        sched_yield();
    while (place < early.places + FILES && atomic_load_explicit(&place->file.references, memory_order_relaxed) != 0)
        place++;
    struct real_file *file = place < early.places + FILES ? &place->file : NULL;
    if (file != NULL)
        atomic_store_explicit(&file->references, 1, memory_order_relaxed);
    atomic_store_explicit(&early.lock, 0, memory_order_release);
    if (file == NULL)
        return NULL;
    file->slot = NULL;
    file->site = site;
    file->number = number;
    file->real = 0;
    if (site >= early.sites)
        early.sites = site + 1;
    return file;
}

/* What the program has counted by itself becomes what both count. What it has closed is left behind. */
static void share_counts(void)
{
    for (unsigned n = 0; n < FILES; n++) {
        struct real_file *file = &early.places[n].file;
        if (atomic_load(&file->references) == 0)
            continue;
        file->slot = &shared->files[n];
        take_slot(file->slot, (unsigned long long)file->site << 32 | file->number);
        atomic_store(&file->slot->real, file->real);
        atomic_store(&file->slot->is_uncounted, file->is_uncounted);
        show_file(file);
    }
    atomic_store(&shared->waited_ns, early.jumped_ns + early.onwards_ns);
    atomic_store(&shared->jumped_ns, early.jumped_ns);
    atomic_store(&shared->jumps, early.jumps);
    for (unsigned site = 0; site < SITES; site++) {
        unsigned opens = atomic_load(&early.places[site].opens);
        if (opens == 0)
            continue;
        atomic_store(&shared->opened[site], opens);
        if (site < early.sites)
            atomic_store(&shared->left_behind[site], opens);
    }
}
