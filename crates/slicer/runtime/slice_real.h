/* The program's side: every call does what libc's would, counts, and compares with the prediction of the
 * same number. Nothing here fails on its own account, and errno is the call's. What is counted as long as there is no
 * slice, and when it starts, is in slice_early.h. */

/* Mappings of followed files at a time; others are left alone, in the slice as well. */
#define MAPPINGS 64

struct mapping {
    const char *begin, *end;
    long long offset; /* of the file at `begin` */
    struct window window;
    void *owner; /* struct real_file or struct description; NULL: free */
};

static struct mapping real_mappings[MAPPINGS] LARGE;
static atomic_ullong last_access_end_ns;

/* Does anybody look at the numbers when the slice has ended? */
static bool is_observed(void);

/* The slice has ended: buries it, as soon as it is dead; slice_start.h. */
static void bury(void);

/* Is the program to count? Not in its children, and not when there is nobody any more to count for. */
static bool counting(void)
{
    if (__builtin_expect(atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0, 1))
        return true;
    if (in_program == NULL || atomic_load_explicit(in_program, memory_order_relaxed) == 0)
        return false;
    bool ended = atomic_load_explicit(&shared->slice_ended, memory_order_relaxed) != 0;
    if (running() && (!ended || is_observed()))
        return true;
    bury();
    early.is_counted = false;
    return false;
}

static struct real_file *real_file(int fd)
{
    struct real_file *file = (unsigned)fd < DESCRIPTORS ? early.places[fd].of_descriptor : NULL;
    if (__builtin_expect(file != NULL && !counting(), 0))
        early.places[fd].of_descriptor = file = NULL; /* and nobody asks again */
    return file;
}

/* The file of a descriptor, if this call of a program without a slice need only be counted in passing, as most need. */
static inline struct real_file *file_in_passing(int fd)
{
    struct real_file *file = (unsigned)fd < DESCRIPTORS ? early.places[fd].of_descriptor : NULL;
    if (file == NULL)
        return NULL;
    /* One instruction, and a jump. */
    if (__builtin_expect(--early.in_passing < 0, 0)) {
        early.in_passing = 0;
        return NULL;
    }
    file->real++;
    return file;
}

/* Is there nobody to be told of it? */
static inline bool is_free(int fd)
{
    return (unsigned)fd >= DESCRIPTORS || early.places[fd].of_descriptor == NULL;
}

static struct real_file *real_stream(FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    return early.is_counted ? real_file(stream->_fileno) : NULL;
#else
    return early.is_counted ? real_file(fileno(stream)) : NULL;
#endif
}

static void end_doze(void)
{
    atomic_store(&shared->dozing, 0);
    wake_slice();
}

/* When an access begins; updates C. In ticks as long as there is no slice. 0 if it need not be known. */
static uint64_t begin_access(struct real_file *file)
{
    if (atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0)
        return is_timed() ? ticks() : 0;
    if (atomic_load_explicit(&shared->dozing, memory_order_relaxed) != 0 && ++file->untimed % SAMPLED != 0 &&
        atomic_load(&file->slot->predicted) <= atomic_load(&file->slot->real))
        return 0;
    uint64_t now = now_ns();
    uint64_t last = atomic_load_explicit(&last_access_end_ns, memory_order_relaxed);
    if (last != 0 && now > last)
        average(&shared->compute_ns, now - last);
    return now;
}

/* The access has been made, whatever it was. */
static void advance(struct file *slot, unsigned long long number)
{
    atomic_store(&slot->real, number + 1);
    if (atomic_load(&slot->predicted) > number)
        pass(slot, number);
}

static void end_access(struct real_file *file, uint64_t begun_ns, long long offset, long long bytes)
{
    if (atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0) {
        end_early_access(file, begun_ns, offset, bytes);
        return;
    }
    struct file *slot = file->slot;
    unsigned long long number = atomic_load_explicit(&slot->real, memory_order_relaxed);
    if (begun_ns == 0) {
        reach(file, offset, bytes);
        /* Nobody waits for this number to the instruction. */
        atomic_store_explicit(&last_access_end_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->real, number + 1, memory_order_release);
        if (atomic_load_explicit(&slot->predicted, memory_order_relaxed) > number)
            pass(slot, number);
        return;
    }
    int saved = errno;
    trace('R', number, file->path, offset, bytes);
    /* First whether the slice has closed the file: if so, what it has predicted is all there will be. */
    unsigned sides = atomic_load(&slot->sides);
    if (atomic_load(&slot->predicted) > number) {
        const struct prediction *prediction = &slot->predictions[number % PREDICTIONS];
        count(&shared->compared, 1);
        if (prediction->offset != offset || prediction->bytes != bytes)
            stop(DIVERGED);
        if (prediction->begun_ns < begun_ns)
            count(&shared->lead_ns, begun_ns - prediction->begun_ns);
    } else if (sides & SLICE_CLOSED) {
        stop(DIVERGED); /* the slice thought that there are no more */
    }
    advance(slot, number);
    uint64_t now = now_ns();
    if (now - begun_ns >= SLOW_NS) {
        count(&shared->waited_ns, now - begun_ns);
        if (is_jump(file, offset, bytes)) {
            /* One that was timed while the slice dozes stands for the others. */
            bool dozing = atomic_load_explicit(&shared->dozing, memory_order_relaxed) != 0;
            count(&shared->jumped_ns, (now - begun_ns) * (dozing ? SAMPLED : 1));
            count(&shared->jumps, dozing ? SAMPLED : 1);
            if (dozing)
                end_doze();
        }
    }
    reach(file, offset, bytes);
    count(&shared->real_accesses, 1);
    count(&shared->real_io_ns, now - begun_ns);
    atomic_store_explicit(&last_access_end_ns, now, memory_order_relaxed);
    errno = saved;
}

static void follow(int fd, struct real_file *file)
{
    atomic_fetch_add(&file->references, 1);
    early.places[fd].of_descriptor = file;
}

static void let_go(struct real_file *file)
{
    if (atomic_fetch_sub(&file->references, 1) != 1 || file->slot == NULL)
        return;
    /* Predictions that never came true. */
    if (atomic_load(&file->slot->predicted) > atomic_load(&file->slot->real))
        stop(DIVERGED);
    free(file->path);
    close_slot(file->slot, PROGRAM_CLOSED);
    file->slot = NULL;
}

static __attribute__((noinline)) void forget_descriptor(int fd)
{
    struct real_file *file = real_file(fd);
    if (file != NULL) {
        early.places[fd].of_descriptor = NULL;
        let_go(file);
    }
}

/* Numbers an open of a site. Failed ones count as well: the slice fails, too. */
static unsigned next_number(atomic_uint *opens)
{
    return atomic_fetch_add(opens, 1) + 1;
}

static bool is_followed(unsigned site)
{
    return site != FORETELL_UNTRACKED && site < SITES;
}

static unsigned next_open(unsigned site)
{
    return is_followed(site) ? next_number(&early.places[site].opens) : 0;
}

/* Opening waits as well, for the folders on the way: when it begins, if that is of interest. */
static uint64_t begin_open(void)
{
    return atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0 && is_timed() ? ticks() : 0;
}

static void end_open(uint64_t begun)
{
    uint64_t waited_ns = begun != 0 ? (ticks() - begun) / TICKS_PER_NS : 0;
    if (waited_ns >= SLOW_NS) {
        int saved = errno;
        note_early_wait(waited_ns, OPENING);
        errno = saved;
    }
}

/* Is it a file that the slice follows as well? As long as there is none, that is not asked for, as it is a system call:
 * what is no such file takes a place, and the slice never comes to it. */
static bool may_be_followed(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
}

/* The place for a file that was opened, with one reference; NULL if there is none. */
static struct real_file *place_for(unsigned site, unsigned number)
{
    struct file *slot;
    if (atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0)
        return early_place(site, number);
    if (slot_of(site, number, false, &slot) != SLOT_FOUND)
        return NULL;
    struct real_file *file = &early.places[slot - shared->files].file;
    atomic_store(&file->references, 1);
    file->slot = slot;
    file->site = site;
    return file;
}

/* The program has made this open; a slice may wait for it (slice_made.h). */
static void announce_open(unsigned site, unsigned number)
{
    if (atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0)
        return;
    atomic_store(&shared->opened[site], number);
    wake_slice();
}

/* Says to the slice where the program has a file that it may change. */
static void show_file(struct real_file *file)
{
    struct stat status;
    if (!file->updates || fstat(file->descriptor, &status) != 0)
        return;
    atomic_store(&file->slot->descriptor, file->descriptor);
    atomic_store(&file->slot->device, status.st_dev);
    atomic_store(&file->slot->inode, status.st_ino);
    atomic_store(&file->slot->changing, file->changed);
    atomic_store(&file->slot->changed, file->changed);
}

/* What a file is opened for, in flags of open(2). */
static void take_place(unsigned site, unsigned number, const char *path, int fd, int flags)
{
    int saved = errno;
    if (atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0 || may_be_followed(fd)) {
        struct real_file *file = fd < DESCRIPTORS ? place_for(site, number) : NULL;
        if (file != NULL) {
            file->path = trace_path(path);
            file->position = 0;
            file->hot = NULL;
            file->window = (struct window){0, 0};
            file->untimed = 0;
            file->descriptor = fd;
            file->is_mapped = file->is_uncounted = false;
            file->updates = (flags & O_ACCMODE) == O_RDWR;
            file->appends = (flags & O_APPEND) != 0;
            file->changed = 0;
            file->reached = NOWHERE;
            if (file->slot != NULL)
                show_file(file);
            early.places[fd].of_descriptor = file;
        } else {
            stop(OVERFLOWED);
        }
    }
    errno = saved;
}

static void opened(unsigned site, unsigned number, const char *path, int fd, int flags)
{
    if (number != 0 && fd >= 0)
        take_place(site, number, path, fd, flags);
    if (number != 0)
        announce_open(site, number);
}

/* Is this open one of a program without a slice that need only be counted in passing? */
static inline bool opens_in_passing(unsigned site)
{
    if (early.in_passing <= 0 || !is_followed(site))
        return false;
    early.in_passing--;
    return true;
}

static int opened_in_passing(unsigned site, int fd, int flags)
{
    unsigned number = atomic_load_explicit(&early.places[site].opens, memory_order_relaxed) + 1;
    atomic_store_explicit(&early.places[site].opens, number, memory_order_relaxed);
    if (fd >= 0)
        opened(site, number, NULL, fd, flags);
    return fd;
}

int foretell_real_openat(unsigned site, int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (opens_in_passing(site))
        return opened_in_passing(site, openat(directory, path, flags, mode), flags);
    bool counted = counting();
    unsigned number = counted ? next_open(site) : 0;
    uint64_t begun_ns = counted ? begin_open() : 0;
    int fd = openat(directory, path, flags, mode);
    if (counted)
        opened(site, number, path, fd, flags);
    end_open(begun_ns);
    return fd;
}

int foretell_real_open(unsigned site, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (opens_in_passing(site))
        return opened_in_passing(site, open(path, flags, mode), flags);
    return foretell_real_openat(site, AT_FDCWD, path, flags, mode);
}

int foretell_real_creat(unsigned site, const char *path, mode_t mode)
{
    return foretell_real_openat(site, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int foretell_real_close(int fd)
{
    if (!is_free(fd))
        forget_descriptor(fd);
    return close(fd);
}

static int copied(int fd, int copy)
{
    struct real_file *file = real_file(fd);
    if (file != NULL && copy >= 0 && copy < DESCRIPTORS && copy != fd)
        follow(copy, file);
    return copy;
}

int foretell_real_dup(int fd)
{
    return copied(fd, dup(fd));
}

int foretell_real_dup2(int fd, int to)
{
    if (fd != to)
        forget_descriptor(to);
    return copied(fd, dup2(fd, to));
}

/* Where the descriptor stands, if anybody wants to know. */
static long long offset_to_compare(int fd, uint64_t begun_ns)
{
    return begun_ns != 0 && atomic_load_explicit(&early.unstarted, memory_order_relaxed) == 0 ? lseek(fd, 0, SEEK_CUR)
                                                                                       : NOWHERE;
}

static __attribute__((noinline)) ssize_t counted_read(int fd, void *buffer, size_t bytes)
{
    struct real_file *file = real_file(fd);
    if (file == NULL)
        return read(fd, buffer, bytes);
    uint64_t begun_ns = begin_access(file);
    long long offset = offset_to_compare(fd, begun_ns);
    ssize_t got = read(fd, buffer, bytes);
    end_access(file, begun_ns, offset, got > 0 ? got : 0);
    return got;
}

ssize_t foretell_real_read(int fd, void *buffer, size_t bytes)
{
    struct real_file *file = file_in_passing(fd);
    if (file == NULL)
        return is_free(fd) ? read(fd, buffer, bytes) : counted_read(fd, buffer, bytes);
    ssize_t got = read(fd, buffer, bytes);
    if (got > 0)
        file->reached += got;
    return got;
}

ssize_t foretell_real_readv(int fd, const struct iovec *parts, int count_of_parts)
{
    struct real_file *file = real_file(fd);
    if (file == NULL)
        return readv(fd, parts, count_of_parts);
    uint64_t begun_ns = begin_access(file);
    long long offset = offset_to_compare(fd, begun_ns);
    ssize_t got = readv(fd, parts, count_of_parts);
    end_access(file, begun_ns, offset, got > 0 ? got : 0);
    return got;
}

static __attribute__((noinline)) ssize_t counted_pread(int fd, void *buffer, size_t bytes, long long offset)
{
    struct real_file *file = real_file(fd);
    if (file == NULL)
        return pread(fd, buffer, bytes, offset);
    uint64_t begun_ns = begin_access(file);
    ssize_t got = pread(fd, buffer, bytes, offset);
    end_access(file, begun_ns, offset, got > 0 ? got : 0);
    return got;
}

ssize_t foretell_real_pread(int fd, void *buffer, size_t bytes, long long offset)
{
    struct real_file *file = file_in_passing(fd);
    if (file == NULL)
        return is_free(fd) ? pread(fd, buffer, bytes, offset) : counted_pread(fd, buffer, bytes, offset);
    file->reached = offset + (long long)bytes;
    return pread(fd, buffer, bytes, offset);
}

ssize_t foretell_real_preadv(int fd, const struct iovec *parts, int count_of_parts, long long offset)
{
    struct real_file *file = real_file(fd);
    if (file == NULL)
        return preadv(fd, parts, count_of_parts, offset);
    uint64_t begun_ns = begin_access(file);
    ssize_t got = preadv(fd, parts, count_of_parts, offset);
    end_access(file, begun_ns, offset, got > 0 ? got : 0);
    return got;
}
