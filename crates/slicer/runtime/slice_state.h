/* What the program and its slice share, in memory that survives a fork.
 *
 * Each open file has a slot with a ring of predictions. The slice writes prediction n and then announces
 * `predicted = n + 1`; the program makes access i, compares, and announces `real = i + 1`. Either may be
 * ahead. A prediction has been *passed* when the program has made its access; whichever side notices this
 * first says so, exactly once, by turning the prediction's state from 2n into 2n + 1. The distance that
 * the paper calls j - i is the number of predictions before this one that have not been passed: counting
 * them over all files keeps it right when files are read in turn, and costs the program one addition.
 *
 * The program never waits for the slice, with three bounded exceptions: the spin lock around the opening
 * and closing of files, a full channel, and, with a trace, its own exit. */

/* Large tables lie behind all that is small: so what is small lies together, on a page or two. */
#define LARGE __attribute__((section(".bss.large")))

/* Most files that are open at a time on either side, or were closed by one side and not yet by the other.
 * The slice waits when all but a reserve are taken; when the program finds none, slicing ends. */
#define FILES 1024
#define RESERVED_FILES 128
/* Most predictions ahead of the program in one open file; then the slice waits. The default of
 * Queue_Threshold, so that no file waits before the rule does. */
#define PREDICTIONS 4096
/* Most open calls in the source that are followed. Others are left alone. */
#define SITES 4096
/* Bytes under way in the channel. When it is full for CHANNEL_WAIT_NS, the slice ends. */
#define CHANNEL_BYTES (4u << 20)
#define CHANNEL_WAIT_NS 50000000ull
/* Most bytes of standard input that are shown to the slice at a time. */
#define INPUT_BYTES 65536
/* Longest wait for the lock of the slots. Only a slice that was killed while it held the lock, a few dozen
 * instructions, makes anybody wait that long; then slicing ends. */
#define LOCK_WAIT_NS 5000000000ull
/* Lowest number for a descriptor of ours, so that the program gets the numbers that it always got, and beyond what
 * programs close that close all. Where the limit on descriptors is lower, it is HIGH_DESCRIPTOR. */
#define LOWEST_DESCRIPTOR 1024
#define HIGH_DESCRIPTOR 700

struct prediction {
    atomic_ullong state; /* 2n: prediction n; 2n + 1: and it has been passed */
    long long offset;
    long long bytes;
    uint64_t begun_ns; /* when the slice came to it */
};

enum { PROGRAM_CLOSED = 1, SLICE_CLOSED = 2, SLICE_OPENED = 4 };

/* Changes of a file that are remembered with their places. */
#define CHANGES 1024

/* Bytes of a file, from where to where. */
struct range {
    atomic_llong begin, end;
};

struct file {
    atomic_uint sides; /* who has opened and closed it */
    atomic_uint is_uncounted; /* is its mapped memory not counted? slice_mapped.h */
    atomic_ullong real;
    atomic_ullong predicted;
    /* Of a file that the program reads and writes: changes that it has begun, and made; slice_changes.h. */
    atomic_ullong changing, changed;
    struct range changes[CHANGES];
    /* Where the program has it, and which file it is. */
    atomic_int descriptor;
    atomic_ullong device, inode;
    struct prediction predictions[PREDICTIONS];
};

/* Why there is no slice any more. */
enum stop { RUNNING, DIVERGED, OVERFLOWED, GAVE_UP, FAULTED, BEHIND, LEFT };

struct shared {
    atomic_uint stopped;       /* enum stop; once set it stays */
    atomic_uint slice_ended;   /* the slice will do nothing any more */
    atomic_uint program_ended; /* the program is in exit(); nothing is worth prefetching */
    atomic_uint lock;
    atomic_uint slots_in_use, slots_looked_at; /* how many have a key, and up to where there may be one */
    pthread_mutex_t alive; /* held by the program; the kernel gives it back when the program is no more */
    atomic_uint wake; /* futex: the slice sleeps on it */
    atomic_uint sleeping;
    atomic_uint dozing; /* the slice sleeps until the program waits for an access; slice_worth.h */
    atomic_ullong wake_at; /* wakes the slice when `passed` comes to this */
    atomic_ullong passed;
    atomic_ullong compute_ns; /* C: from the end of an access to the begin of the next, average */
    atomic_ullong service_ns; /* T: service time of a request, average */
    atomic_ullong channel_sent, channel_received;
    /* What the program has in the buffer of its standard input, after so many calls on it; with the lock. slice_input.h */
    atomic_uint input_lock;
    unsigned long long input_calls;
    long long input_offset; /* of what lies behind it; NOWHERE: in no file */
    int input_descriptor;
    size_t input_bytes;
    unsigned char input[INPUT_BYTES];
    atomic_ullong signals[FORETELL_SYNC_POINTS];
    /* The last open of each site that the program closed before the slice came to it. */
    atomic_uint left_behind[SITES];
    /* How many opens of each site the program has made. */
    atomic_ullong opened[SITES];

    /* Statistics. */
    atomic_ullong real_accesses, real_io_ns, compared;
    atomic_ullong predictions, expired, skipped, requests, request_bytes, fetches, waits, slice_cpu_ns, slice_sectors;
    atomic_uint service, service_lost; /* connected to the service; and not any more */
    atomic_ullong disclosed, refused_files;
    atomic_ullong lead_ns;   /* how much earlier the slice came to accesses than the program, in all */
    atomic_ullong waited_ns; /* in accesses that took SLOW_NS or more */
    atomic_ullong jumped_ns, jumps; /* of them in those that the kernel does not read ahead: slice_early.h */
    atomic_ullong dozes;

    /* Of each slot: site << 32 | number of the open at that site, from 1; 0: the slot is free. By themselves, as
     * a slot has many pages, of which one that was never used takes no memory. */
    atomic_ullong keys[FILES];
    struct file files[FILES];
    _Alignas(8) unsigned char channel[CHANNEL_BYTES];
};

static struct shared *shared; /* NULL: no slice was started */

/* Bytes of a stream or a mapping that the last counted access touched, in whole pages. */
struct window {
    long long begin, end;
};

/* One open file description of the program, as far as it is followed. */
struct real_file {
    struct file *slot;      /* NULL: there is no slice */
    atomic_uint references; /* descriptors and mappings */
    unsigned site, number;
    unsigned untimed;
    unsigned long long real; /* accesses, as long as there is no slice */
    long long reached; /* where the last access ended; of read(2), if nobody has moved the descriptor */
    char *path;
    long long position; /* of the stream, if one was made, when it was looked at last */
    FILE *hot;              /* it may have moved since then, within its buffer */
    long long hot_buffered; /* and this was left in there */
    struct window window;
    int descriptor; /* the one that it was opened with */
    unsigned long long changed; /* how often it was; slice_changes.h */
    bool updates, appends;      /* open for reading and writing; at its end */
    bool is_mapped, is_uncounted; /* in memory; and so not counted there */
};

/* Descriptors of the program that are followed; numbers above are left alone. */
#define DESCRIPTORS 1024
#define NOWHERE (-1ll)
/* Bytes that are sent before there is a slice; beyond, the channel is made for them. */
#define EARLY_BYTES 2048
/* Most strings of an environment, and strings and bytes of arguments and of the folder's path, that are kept without
 * asking for memory. */
#define KEPT_STRINGS 64
#define KEPT_BYTES 512

/* Three tables, by the numbers of slots, descriptors and sites: in one, as the first few of each are what is used. Of a
 * size by which is multiplied in one instruction. */
struct place {
    struct real_file file; /* with the place of its slot */
    struct real_file *of_descriptor;
    atomic_uint opens; /* of the site */
} __attribute__((aligned(128)));

/* What a program without a slice needs. It lies together: each page that it touches is a fault at each of its starts. */
static struct {
    atomic_uint unstarted; /* is the program still without a slice, which may start yet? slice_early.h */
    int in_passing;        /* so many of its calls are counted in passing, before one is timed */
    bool is_counted;       /* may there be somebody to count for? If not, all calls are made as they are */
    bool has_statistics, was_hot;
    bool makes_files; /* has the program calls that make or change files? */
    long page;
    atomic_uint lock;
    unsigned timed; /* so many accesses are yet to be */
    unsigned places_waited_for, jumps, sites;
    uint64_t jumped_ns, onwards_ns;
    long waits; /* of the process, when it waited last */
    pid_t program;
    bool is_late;
    int argc;
    void (*slice)(int, char **, char **);
    char **argv, **envp;
    char *arguments[KEPT_STRINGS], *environment[KEPT_STRINGS], text[KEPT_BYTES], folder[KEPT_BYTES];
    struct place places[SITES];
    unsigned sent_bytes;
    unsigned char sent[EARLY_BYTES];
} early;

static void end_early(void)
{
    atomic_store(&early.unstarted, 0);
    early.in_passing = 0;
    early.is_counted = false;
}

/* Zero in every process but the program that started the slice: the page is emptied by fork(2), so that
 * children of the program count nothing. */
static atomic_uint *in_program;

#define TICKS_PER_NS 2

/* A clock for what need not be exact: it is not looked up, and takes a few ns. In units that may be half a nanosecond and
 * may be twice as long: a processor counts 1 to 4 of them in 1 ns. */
static uint64_t ticks(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) * TICKS_PER_NS;
#endif
}

/* A call of the kernel of which nothing but the result is wanted, and no errno. */
static long of_kernel(long number, long first, long second)
{
#if defined(__x86_64__) && !defined(__ILP32__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, first, second);
#endif
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool running(void)
{
    return atomic_load(&shared->stopped) == RUNNING;
}

/* Sleeps until `*word` is no longer `value`, somebody wakes it, or the time is over. */
static void futex_wait(atomic_uint *word, unsigned value, uint64_t timeout_ns)
{
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static void wake_slice(void)
{
    if (atomic_load(&shared->sleeping)) {
        atomic_fetch_add(&shared->wake, 1);
        syscall(SYS_futex, &shared->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

/* The first reason stays. */
static void stop(enum stop reason)
{
    unsigned expected = RUNNING;
    if (shared == NULL) {
        end_early(); /* and none will */
        return;
    }
    atomic_compare_exchange_strong(&shared->stopped, &expected, reason);
    wake_slice();
}

static bool lock_slots(void)
{
    uint64_t since = 0;
    while (atomic_exchange(&shared->lock, 1)) {
        uint64_t now = now_ns();
        if (since == 0) {
            since = now;
        } else if (now - since > LOCK_WAIT_NS) {
            stop(GAVE_UP);
            return false;
        }
        sched_yield();
    }
    return true;
}

static void unlock_slots(void)
{
    atomic_store(&shared->lock, 0);
}

static atomic_ullong *key_of(const struct file *file)
{
    return &shared->keys[file - shared->files];
}

static unsigned site_of(const struct file *file)
{
    return (unsigned)(atomic_load(key_of(file)) >> 32);
}

/* The slot with this key, or NULL and the first free one, if any. Slots are taken from the first on, so few are looked
 * at. With the lock. */
static struct file *find_slot(unsigned long long key, struct file **free_slot)
{
    unsigned up_to = atomic_load_explicit(&shared->slots_looked_at, memory_order_relaxed);
    for (struct file *file = shared->files; file < shared->files + up_to; file++) {
        unsigned long long held = atomic_load_explicit(key_of(file), memory_order_relaxed);
        if (held == key)
            return file;
        if (held == 0 && *free_slot == NULL)
            *free_slot = file;
    }
    if (*free_slot == NULL && up_to < FILES)
        *free_slot = shared->files + up_to;
    return NULL;
}

/* Gives a slot to a file. With the lock. */
static void take_slot(struct file *file, unsigned long long key)
{
    unsigned number = (unsigned)(file - shared->files) + 1;
    atomic_store(&file->sides, 0);
    atomic_store(&file->is_uncounted, 0);
    atomic_store(&file->real, 0);
    atomic_store(&file->predicted, 0);
    atomic_store(&file->changing, 0);
    atomic_store(&file->changed, 0);
    atomic_store(key_of(file), key);
    atomic_fetch_add(&shared->slots_in_use, 1);
    if (number > atomic_load(&shared->slots_looked_at))
        atomic_store(&shared->slots_looked_at, number);
}

/* The slot is free. With the lock. */
static void free_slot(struct file *file)
{
    unsigned up_to = atomic_load(&shared->slots_looked_at);
    if (atomic_exchange(key_of(file), 0) != 0)
        atomic_fetch_sub(&shared->slots_in_use, 1);
    while (up_to > 0 && atomic_load(&shared->keys[up_to - 1]) == 0)
        up_to--;
    atomic_store(&shared->slots_looked_at, up_to);
}

enum slot { SLOT_FOUND, SLOT_NONE_LEFT, SLOT_LEFT_BEHIND };

/* The slot of an open file, the same for both sides. To the slice a file that the program has opened and
 * closed before is left behind, and all slots but a reserve are taken when it is not there yet. */
static enum slot slot_of(unsigned site, unsigned number, bool for_slice, struct file **found)
{
    unsigned long long key = (unsigned long long)site << 32 | number;
    struct file *unused = NULL;
    enum slot result = SLOT_FOUND;
    if (!lock_slots())
        return SLOT_NONE_LEFT;
    struct file *file = find_slot(key, &unused);
    unsigned left = FILES - atomic_load(&shared->slots_in_use);
    if (file == NULL && for_slice && atomic_load(&shared->left_behind[site]) >= number) {
        result = SLOT_LEFT_BEHIND;
    } else if (file == NULL && unused != NULL && left > (for_slice ? RESERVED_FILES : 0)) {
        file = unused;
        take_slot(file, key);
    } else if (file == NULL) {
        result = SLOT_NONE_LEFT;
    }
    if (file != NULL && for_slice)
        atomic_fetch_or(&file->sides, SLICE_OPENED);
    unlock_slots();
    *found = file;
    return result;
}

/* One side is through with the file; the second one frees the slot. */
static void close_slot(struct file *file, unsigned side)
{
    if (!lock_slots())
        return;
    unsigned sides = atomic_fetch_or(&file->sides, side) | side;
    if ((sides & SLICE_OPENED) == 0) {
        unsigned number = (unsigned)atomic_load(key_of(file));
        if (number > atomic_load(&shared->left_behind[site_of(file)]))
            atomic_store(&shared->left_behind[site_of(file)], number);
    }
    if ((sides & SLICE_OPENED) == 0 || (sides & PROGRAM_CLOSED && sides & SLICE_CLOSED))
        free_slot(file);
    unlock_slots();
}

/* Says that prediction `number` has been passed, unless the other side did. */
static bool pass(struct file *file, unsigned long long number)
{
    unsigned long long expected = 2 * number;
    if (!atomic_compare_exchange_strong(&file->predictions[number % PREDICTIONS].state, &expected, 2 * number + 1))
        return false;
    unsigned long long passed = atomic_fetch_add(&shared->passed, 1) + 1;
    if (passed >= atomic_load(&shared->wake_at))
        wake_slice();
    return true;
}

/* Moving average over about 16 values. */
static void average(atomic_ullong *mean, uint64_t value)
{
    unsigned long long old = atomic_load_explicit(mean, memory_order_relaxed);
    unsigned long long next = old == 0 ? value : old - old / 16 + value / 16;
    atomic_store_explicit(mean, next, memory_order_relaxed);
}

static void count(atomic_ullong *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static long long page_bytes(void)
{
#ifdef __x86_64__
    return 4096;
#else
    if (early.page == 0)
        early.page = sysconf(_SC_PAGESIZE);
    return early.page;
#endif
}

/* Are there bytes outside the window in these? Then the window moves there. */
static bool leaves(struct window *window, long long offset, long long bytes)
{
    long long page = page_bytes();
    if (bytes <= 0 || (offset >= window->begin && offset + bytes <= window->end))
        return false;
    window->begin = offset / page * page;
    window->end = (offset + bytes + page - 1) / page * page;
    return true;
}

/* Is it in a family of modes of fopen(3) that would create or truncate, and what open(2) calls it? */
static int flags_of_mode(const char *mode)
{
    int access = strchr(mode, '+') != NULL ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    switch (mode[0]) {
    case 'w':
        return access | O_CREAT | O_TRUNC;
    case 'a':
        return access | O_CREAT | O_APPEND;
    default:
        return access;
    }
}

static size_t bytes_of(const struct iovec *parts, int count_of_parts)
{
    size_t bytes = 0;
    for (int i = 0; i < count_of_parts; i++)
        bytes += parts[i].iov_len;
    return bytes;
}
