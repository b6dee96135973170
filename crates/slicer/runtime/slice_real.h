/* The program's side: every call does what libc's would, counts, and compares with the prediction of the
 * same number. Nothing here fails on its own account, and errno is the call's. */

/* One open file description of the program, as far as it is followed. */
struct real_file {
    struct file *slot;
    atomic_uint references; /* descriptors and mappings */
    char *path;
    long long position; /* of the stream, if one was made */
    struct window window;
    unsigned untimed;
};

/* Descriptors of the program that are followed; numbers above are left alone. */
#define DESCRIPTORS 1024
/* Mappings of followed files at a time; others are left alone, in the slice as well. */
#define MAPPINGS 64

struct mapping {
    const char *begin, *end;
    long long offset; /* of the file at `begin` */
    struct window window;
    void *owner; /* struct real_file or struct description; NULL: free */
};

static struct real_file real_files[FILES];
static struct real_file *real_by_descriptor[DESCRIPTORS];
static struct mapping real_mappings[MAPPINGS];
static atomic_uint real_opens[SITES];
static atomic_ullong last_access_end_ns;

static bool counting(void)
{
    return in_program != NULL && atomic_load_explicit(in_program, memory_order_relaxed) != 0 && running();
}

static struct real_file *real_file(int fd)
{
    return fd >= 0 && fd < DESCRIPTORS && counting() ? real_by_descriptor[fd] : NULL;
}

static struct real_file *real_stream(FILE *stream)
{
    return counting() ? real_file(fileno(stream)) : NULL;
}

/* While the slice dozes, one access in so many is timed, and one that takes so long wakes it: longer than any
 * copy out of memory, shorter than any device. */
#define SAMPLED 16
#define SLOW_NS 60000

static void end_doze(void)
{
    atomic_store(&shared->dozing, 0);
    wake_slice();
}

/* When an access begins; updates C. 0 if it need not be known, as the slice dozes. */
static uint64_t begin_access(struct real_file *file)
{
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
    int saved = errno;
    struct file *slot = file->slot;
    unsigned long long number = atomic_load(&slot->real);
    if (begun_ns == 0) {
        atomic_store_explicit(&last_access_end_ns, 0, memory_order_relaxed);
        advance(slot, number);
        errno = saved;
        return;
    }
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
        if (atomic_load_explicit(&shared->dozing, memory_order_relaxed) != 0)
            end_doze();
    }
    count(&shared->real_accesses, 1);
    count(&shared->real_io_ns, now - begun_ns);
    atomic_store_explicit(&last_access_end_ns, now, memory_order_relaxed);
    errno = saved;
}

static void follow(int fd, struct real_file *file)
{
    atomic_fetch_add(&file->references, 1);
    real_by_descriptor[fd] = file;
}

static void let_go(struct real_file *file)
{
    if (atomic_fetch_sub(&file->references, 1) != 1)
        return;
    /* Predictions that never came true. */
    if (atomic_load(&file->slot->predicted) > atomic_load(&file->slot->real))
        stop(DIVERGED);
    free(file->path);
    close_slot(file->slot, PROGRAM_CLOSED);
}

static void forget_descriptor(int fd)
{
    struct real_file *file = real_file(fd);
    if (file != NULL) {
        real_by_descriptor[fd] = NULL;
        let_go(file);
    }
}

/* Numbers an open of a site. Failed ones count as well: the slice fails, too. */
static unsigned next_open(atomic_uint *opens, unsigned site)
{
    return site != FORETELL_UNTRACKED && site < SITES ? atomic_fetch_add(&opens[site], 1) + 1 : 0;
}

static void opened(unsigned site, unsigned number, const char *path, int fd)
{
    struct stat status;
    int saved = errno;
    if (number != 0 && fd >= 0 && fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode))) {
        struct file *slot;
        if (fd < DESCRIPTORS && slot_of(site, number, false, &slot) == SLOT_FOUND) {
            struct real_file *file = &real_files[slot - shared->files];
            atomic_store(&file->references, 0);
            file->slot = slot;
            file->path = trace_path(path);
            file->position = 0;
            file->window = (struct window){0, 0};
            file->untimed = 0;
            follow(fd, file);
        } else {
            stop(OVERFLOWED);
        }
    }
    errno = saved;
}

int foretell_real_openat(unsigned site, int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    bool counted = counting();
    unsigned number = counted ? next_open(real_opens, site) : 0;
    int fd = openat(directory, path, flags, mode);
    if (counted)
        opened(site, number, path, fd);
    return fd;
}

int foretell_real_open(unsigned site, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return foretell_real_openat(site, AT_FDCWD, path, flags, mode);
}

int foretell_real_creat(unsigned site, const char *path, mode_t mode)
{
    return foretell_real_openat(site, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int foretell_real_close(int fd)
{
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

ssize_t foretell_real_read(int fd, void *buffer, size_t bytes)
{
    struct real_file *file = real_file(fd);
    if (file == NULL)
        return read(fd, buffer, bytes);
    uint64_t begun_ns = begin_access(file);
    long long offset = begun_ns != 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t got = read(fd, buffer, bytes);
    end_access(file, begun_ns, offset, got > 0 ? got : 0);
    return got;
}

ssize_t foretell_real_readv(int fd, const struct iovec *parts, int count_of_parts)
{
    struct real_file *file = real_file(fd);
    if (file == NULL)
        return readv(fd, parts, count_of_parts);
    uint64_t begun_ns = begin_access(file);
    long long offset = begun_ns != 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t got = readv(fd, parts, count_of_parts);
    end_access(file, begun_ns, offset, got > 0 ? got : 0);
    return got;
}

ssize_t foretell_real_pread(int fd, void *buffer, size_t bytes, long long offset)
{
    struct real_file *file = real_file(fd);
    if (file == NULL)
        return pread(fd, buffer, bytes, offset);
    uint64_t begun_ns = begin_access(file);
    ssize_t got = pread(fd, buffer, bytes, offset);
    end_access(file, begun_ns, offset, got > 0 ? got : 0);
    return got;
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

/* ---- streams ---- */

FILE *foretell_real_fopen(unsigned site, const char *path, const char *mode)
{
    bool counted = counting();
    unsigned number = counted ? next_open(real_opens, site) : 0;
    FILE *stream = fopen(path, mode);
    if (counted)
        opened(site, number, path, stream != NULL ? fileno(stream) : -1);
    return stream;
}

FILE *foretell_real_freopen(unsigned site, const char *path, const char *mode, FILE *stream)
{
    if (path == NULL)
        return freopen(path, mode, stream);
    forget_descriptor(fileno(stream));
    bool counted = counting();
    unsigned number = counted ? next_open(real_opens, site) : 0;
    FILE *again = freopen(path, mode, stream);
    if (counted)
        opened(site, number, path, again != NULL ? fileno(again) : -1);
    return again;
}

static void stream_position(struct real_file *file, FILE *stream)
{
    int saved = errno;
    file->position = ftello(stream);
    errno = saved;
}

FILE *foretell_real_fdopen(int fd, const char *mode)
{
    FILE *stream = fdopen(fd, mode);
    struct real_file *file = real_file(fd);
    if (stream != NULL && file != NULL)
        stream_position(file, stream);
    return stream;
}

int foretell_real_fclose(FILE *stream)
{
    if (counting())
        forget_descriptor(fileno(stream));
    return fclose(stream);
}

/* What a call on a stream touched, from where it began to where the stream stands now. */
static void stream_moved(struct real_file *file, uint64_t begun_ns, long long now)
{
    long long before = file->position;
    file->position = now;
    if (leaves(&file->window, before, now - before))
        end_access(file, begun_ns, before, now - before);
    else if (begun_ns != 0)
        atomic_store_explicit(&last_access_end_ns, now_ns(), memory_order_relaxed);
}

static void stream_read(struct real_file *file, FILE *stream, uint64_t begun_ns)
{
    int saved = errno;
    stream_moved(file, begun_ns, ftello(stream));
    errno = saved;
}

size_t foretell_real_fread(void *buffer, size_t size, size_t count_of_items, FILE *stream)
{
    struct real_file *file = real_stream(stream);
    if (file == NULL)
        return fread(buffer, size, count_of_items, stream);
    uint64_t begun_ns = begin_access(file);
    size_t got = fread(buffer, size, count_of_items, stream);
    stream_read(file, stream, begun_ns);
    return got;
}

char *foretell_real_fgets(char *line, int room, FILE *stream)
{
    struct real_file *file = real_stream(stream);
    if (file == NULL)
        return fgets(line, room, stream);
    uint64_t begun_ns = begin_access(file);
    char *got = fgets(line, room, stream);
    stream_read(file, stream, begun_ns);
    return got;
}

int foretell_real_getc(FILE *stream)
{
    struct real_file *file = real_stream(stream);
    /* Most bytes are in the window, and need no clock. */
    if (file == NULL)
        return getc(stream);
    bool inside = file->position >= file->window.begin && file->position < file->window.end;
    uint64_t begun_ns = inside ? 0 : begin_access(file);
    int byte = getc(stream);
    if (byte != EOF && inside)
        file->position++;
    else if (byte != EOF)
        stream_moved(file, begun_ns, file->position + 1);
    return byte;
}

int foretell_real_ungetc(int byte, FILE *stream)
{
    struct real_file *file = real_stream(stream);
    int pushed = ungetc(byte, stream);
    if (file != NULL && pushed != EOF)
        file->position--;
    return pushed;
}

ssize_t foretell_real_getdelim(char **line, size_t *room, int delimiter, FILE *stream)
{
    struct real_file *file = real_stream(stream);
    if (file == NULL)
        return getdelim(line, room, delimiter, stream);
    uint64_t begun_ns = begin_access(file);
    ssize_t got = getdelim(line, room, delimiter, stream);
    stream_read(file, stream, begun_ns);
    return got;
}

ssize_t foretell_real_getline(char **line, size_t *room, FILE *stream)
{
    return foretell_real_getdelim(line, room, '\n', stream);
}

int foretell_real_vfscanf(FILE *stream, const char *format, va_list arguments)
{
    struct real_file *file = real_stream(stream);
    if (file == NULL)
        return vfscanf(stream, format, arguments);
    uint64_t begun_ns = begin_access(file);
    int got = vfscanf(stream, format, arguments);
    stream_read(file, stream, begun_ns);
    return got;
}

int foretell_real_fscanf(FILE *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int got = foretell_real_vfscanf(stream, format, arguments);
    va_end(arguments);
    return got;
}

int foretell_real_fseeko(FILE *stream, long long offset, int whence)
{
    int result = fseeko(stream, offset, whence);
    struct real_file *file = real_stream(stream);
    if (file != NULL)
        stream_position(file, stream);
    return result;
}

int foretell_real_fseek(FILE *stream, long offset, int whence)
{
    return foretell_real_fseeko(stream, offset, whence);
}

void foretell_real_rewind(FILE *stream)
{
    rewind(stream);
    struct real_file *file = real_stream(stream);
    if (file != NULL)
        stream_position(file, stream);
}

/* ---- mapped memory ---- */

static struct mapping *add_mapping(struct mapping *mappings, void *begin, size_t bytes, long long offset, void *owner)
{
    for (struct mapping *mapping = mappings; mapping < mappings + MAPPINGS; mapping++) {
        if (mapping->owner == NULL) {
            *mapping = (struct mapping){begin, (const char *)begin + bytes, offset, {0, 0}, owner};
            return mapping;
        }
    }
    return NULL;
}

static struct mapping *find_mapping(struct mapping *mappings, const void *address)
{
    for (struct mapping *mapping = mappings; mapping < mappings + MAPPINGS; mapping++)
        if (mapping->owner != NULL && (const char *)address >= mapping->begin && (const char *)address < mapping->end)
            return mapping;
    return NULL;
}

void *foretell_real_mmap(void *address, size_t bytes, int protection, int flags, int fd, long long offset)
{
    void *begin = mmap(address, bytes, protection, flags, fd, offset);
    struct real_file *file = begin != MAP_FAILED && !(flags & MAP_ANONYMOUS) ? real_file(fd) : NULL;
    if (file != NULL) {
        if (add_mapping(real_mappings, begin, bytes, offset, file) != NULL)
            atomic_fetch_add(&file->references, 1);
        else
            stop(OVERFLOWED);
    }
    return begin;
}

int foretell_real_munmap(void *address, size_t bytes)
{
    struct mapping *mapping = counting() ? find_mapping(real_mappings, address) : NULL;
    if (mapping != NULL && mapping->begin == (const char *)address) {
        struct real_file *file = mapping->owner;
        mapping->owner = NULL;
        let_go(file);
    }
    return munmap(address, bytes);
}

void *foretell_real_access(const void *address, size_t bytes)
{
    struct mapping *mapping = counting() ? find_mapping(real_mappings, address) : NULL;
    if (mapping != NULL) {
        long long offset = mapping->offset + ((const char *)address - mapping->begin);
        if (leaves(&mapping->window, offset, (long long)bytes)) {
            uint64_t begun_ns = begin_access(mapping->owner);
            volatile const char *touched = address;
            (void)*touched; /* the fault is the access */
            end_access(mapping->owner, begun_ns, offset, (long long)bytes);
        }
    }
    return (void *)(uintptr_t)address;
}
