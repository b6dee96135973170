/* The slice's side: files of its own with offsets of their own, return values computed from sizes, and a
 * prediction for each access. */

/* Descriptors of the slice: like the program's, the lowest free number from 3 on. */
#define HANDLES 1024
#define FIRST_HANDLE 3

static struct description *handles[HANDLES] LARGE;
static struct mapping slice_mappings[MAPPINGS] LARGE;
static atomic_uint slice_opens[SITES] LARGE;
static bool slice_is_thread;
/* A thread that uses the program's table of descriptors keeps its own out of the way. */
static bool shares_descriptors;

void foretell_slice_give_up(void)
{
    stop(GAVE_UP);
    leave_slice();
}

static struct description *description_or_null(int fd)
{
    return fd >= 0 && fd < HANDLES ? handles[fd] : NULL;
}

static struct description *description_of(int fd)
{
    struct description *description = description_or_null(fd);
    if (description == NULL && fd >= 0 && fd < FIRST_HANDLE)
        foretell_slice_end(); /* a standard one of the program's: all before it was right */
    if (description == NULL)
        foretell_slice_give_up();
    return description;
}

static bool is_ours(FILE *stream)
{
    return stream != NULL && ((struct description *)(void *)stream)->magic == DESCRIPTION;
}

static struct description *description_of_stream(FILE *stream)
{
    if (stream == *library.in || stream == *library.out || stream == *library.error)
        foretell_slice_end();
    if (!is_ours(stream))
        foretell_slice_give_up();
    struct description *description = (struct description *)(void *)stream;
    if (!description->is_replaced)
        return description;
    if (description->replacement == NULL)
        foretell_slice_give_up();
    return description->replacement;
}

/* ---- predictions ---- */

static void leave_if_over(void)
{
    if (!running() || (atomic_load(&shared->program_ended) != 0 && trace_descriptor < 0))
        leave_slice();
}

/* Waits until the slice may go on to another prediction in the file. */
static void wait_for_room(struct file *slot)
{
    uint64_t nap_ns = NAP_NS;
    leave_if_over();
    while (atomic_load(&slot->predicted) >= atomic_load(&slot->real) + PREDICTIONS && program_runs()) {
        serve(true);
        wait_for_program(worth_waking(), &nap_ns);
    }
}

/* Waits until the slice may read `bytes` itself, which it does no earlier than it would prefetch them, and notes
 * when it begins. */
static void wait_to_fetch(struct description *description, long long bytes)
{
    struct file *slot = description->slot;
    uint64_t nap_ns = NAP_NS;
    if (slot == NULL)
        return;
    weigh();
    wait_for_room(slot);
    serve(positioning_ns() == 0);
    while (program_runs() && atomic_load(&slot->real) <= atomic_load(&slot->predicted) &&
           !may_serve(queue.serial, bytes)) {
        serve(true);
        wait_for_program(worth_waking(), &nap_ns);
    }
    leave_if_over();
    description->fetch_begun_ns = now_ns();
}

/* Makes the next prediction known, to which the slice came at `begun_ns`; false if the program has been there
 * already. */
static bool publish(struct description *description, long long offset, long long bytes, uint64_t begun_ns)
{
    struct file *slot = description->slot;
    unsigned long long number = atomic_load(&slot->predicted);
    struct prediction *prediction = &slot->predictions[number % PREDICTIONS];
    prediction->offset = offset;
    prediction->bytes = bytes;
    prediction->begun_ns = begun_ns;
    atomic_store(&prediction->state, 2 * number);
    atomic_store(&slot->predicted, number + 1);
    trace('P', number, description->path, offset, bytes);
    count(&shared->predictions, 1);
    queue.serial++;
    /* First whether the program has closed the file: if so, what it has read is all there will be. */
    unsigned sides = atomic_load(&slot->sides);
    if (atomic_load(&slot->real) <= number) {
        if ((sides & PROGRAM_CLOSED) == 0)
            return true;
        stop(DIVERGED); /* the program closed the file without this access */
        leave_slice();
    }
    pass(slot, number);
    count(&shared->expired, 1);
    return false;
}

/* Of a file that the program has read and closed before the slice came to it. */
static void note_left_behind(struct description *description, long long offset, long long bytes)
{
    if (!description->left_behind)
        return;
    leave_if_over();
    trace('P', description->accesses_left_behind++, description->path, offset, bytes);
    count(&shared->predictions, 1);
    count(&shared->expired, 1);
    worth.left_behind++;
    weigh();
}

/* Queues what a prediction needs, except for pages that the last one asked for. */
static void queue_range(struct description *description, unsigned long long number, unsigned long long serial,
                        long long offset, long long bytes)
{
    long long end = offset + bytes < description->size ? offset + bytes : description->size;
    if (end > offset + queue.budget_bytes)
        end = offset + queue.budget_bytes;
    if (leaves(&description->queued, offset, end - offset))
        enqueue(description, number, serial, description->queued.begin, description->queued.end);
}

/* Predict only. */
static void predict(struct description *description, long long offset, long long bytes)
{
    if (description->slot == NULL) {
        note_left_behind(description, offset, bytes);
        return;
    }
    weigh();
    wait_for_room(description->slot);
    unsigned long long serial = queue.serial;
    unsigned long long number = atomic_load(&description->slot->predicted);
    if (!publish(description, offset, bytes, now_ns()) || description->descriptor < 0)
        return;
    queue_range(description, number, serial, offset, bytes);
}

/* Predict and read: the reading is the caller's. */
static void predict_fetched(struct description *description, long long offset, long long bytes)
{
    if (description->slot == NULL) {
        note_left_behind(description, offset, bytes);
        return;
    }
    unsigned long long serial = queue.serial, number = atomic_load(&description->slot->predicted);
    count(&shared->fetches, 1);
    if (!publish(description, offset, bytes, description->fetch_begun_ns))
        return;
    use(serial, bytes);
    /* The service keeps it until the program has come to it. */
    if (has_service())
        queue_range(description, number, serial, offset, bytes);
}

/* ---- opening ---- */

static int new_handle(struct description *description, int lowest)
{
    for (int handle = lowest; handle < HANDLES; handle++) {
        if (handles[handle] == NULL) {
            handles[handle] = description;
            description->references++;
            description->open_references++;
            return handle;
        }
    }
    errno = EMFILE;
    return -1;
}

static void let_go_description(struct description *description)
{
    if (--description->open_references == 0 && description->slot != NULL)
        close_slot(description->slot, SLICE_CLOSED);
    release(description);
}

/* Opens for reading what was just looked at, without waiting for anybody. -1 and errno if that cannot be. */
static int open_for_reading(int directory, const char *path, int flags, const struct stat *looked_at)
{
    struct stat status;
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (flags & (O_DIRECTORY | O_NOFOLLOW)));
    /* Limits are the slice's own, and the program may have raised its. */
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        foretell_slice_give_up();
    if (fd < 0)
        return -1;
    /* Another file in the meantime, a pipe or a device, perhaps under the number that the file had. */
    if (fstat(fd, &status) != 0 || status.st_dev != looked_at->st_dev || status.st_ino != looked_at->st_ino ||
        (status.st_mode & S_IFMT) != (looked_at->st_mode & S_IFMT)) {
        close(fd);
        foretell_slice_give_up();
    }
    return shares_descriptors ? out_of_the_way(fd) : fd;
}

void foretell_slice_free(void *memory)
{
    if (!slice_is_thread)
        free(memory);
}

void (*foretell_slice_function(void (*function)(void)))(void)
{
    return function == (void (*)(void))library.free ? (void (*)(void))foretell_slice_free : function;
}

void foretell_slice_in_turn(int first, ...)
{
    (void)first;
}

/* What open(2) would do to the file, as far as reading it is concerned. -1 and errno, or a handle. */
static int open_file(unsigned site, int directory, const char *path, int flags)
{
    leave_if_over();
    leave_if_orphaned();
    unsigned number = is_followed(site) ? next_number(&slice_opens[site]) : 0;
    int access_mode = flags & O_ACCMODE;
    bool empty = (flags & (O_TRUNC | O_EXCL)) != 0 && (flags & O_CREAT || flags & O_TRUNC);
    struct stat status;
    memset(&status, 0, sizeof status);
    if (directory != AT_FDCWD)
        directory = description_of(directory)->descriptor;
    if (fstatat(directory, path, &status, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) != 0) {
        if (errno != ENOENT || !(flags & O_CREAT))
            return -1;
        empty = true;
        status.st_mode = S_IFREG | 0644;
    } else if (access_mode != O_RDONLY && faccessat(directory, path, W_OK, AT_EACCESS) != 0) {
        return -1;
    }
    if (is_closed_to_all(directory, path, &status))
        return -1;
    bool has_size = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
    if (flags & O_DIRECTORY && !S_ISDIR(status.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    if (empty)
        status.st_size = 0;
    int descriptor = -1;
    if (!empty && access_mode != O_WRONLY && (has_size || S_ISDIR(status.st_mode))) {
        descriptor = open_for_reading(directory, path, flags, &status);
        if (descriptor < 0)
            return -1;
        if (S_ISBLK(status.st_mode))
            status.st_size = lseek(descriptor, 0, SEEK_END);
    }
    struct description *description = calloc(1, sizeof *description);
    if (description == NULL)
        foretell_slice_give_up();
    description->magic = DESCRIPTION;
    description->descriptor = descriptor;
    description->status = status;
    description->size = status.st_size;
    description->unpredictable = !has_size;
    description->unreadable = access_mode == O_WRONLY;
    description->append = (flags & O_APPEND) != 0;
    description->path = trace_path(path);
    int handle = new_handle(description, FIRST_HANDLE);
    if (handle < 0)
        foretell_slice_give_up();
    description->handle = handle;
    if (has_size && number != 0) {
        description->site = site;
        uint64_t nap_ns = NAP_NS;
        enum slot slot;
        while ((slot = slot_of(site, number, true, &description->slot)) == SLOT_NONE_LEFT) {
            leave_if_over();
            if (!program_runs())
                leave_slice(); /* nobody will make room */
            serve(true);
            wait_for_program(worth_waking(), &nap_ns);
        }
        description->left_behind = slot == SLOT_LEFT_BEHIND;
    }
    if (description->slot != NULL)
        description->key = atomic_load(key_of(description->slot));
    return handle;
}

int foretell_slice_open(unsigned site, const char *path, int flags, ...)
{
    return open_file(site, AT_FDCWD, path, flags);
}

int foretell_slice_openat(unsigned site, int directory, const char *path, int flags, ...)
{
    return open_file(site, directory, path, flags);
}

int foretell_slice_creat(unsigned site, const char *path, mode_t mode)
{
    (void)mode;
    return open_file(site, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC);
}

int foretell_slice_close(int fd)
{
    struct description *description = description_or_null(fd);
    if (description == NULL) {
        errno = EBADF;
        return -1;
    }
    handles[fd] = NULL;
    let_go_description(description);
    return 0;
}

int foretell_slice_dup(int fd)
{
    return new_handle(description_of(fd), FIRST_HANDLE);
}

int foretell_slice_dup2(int fd, int to)
{
    struct description *description = description_of(fd);
    if (fd == to)
        return to;
    if (to < 0 || to >= HANDLES) {
        errno = EBADF;
        return -1;
    }
    if (handles[to] != NULL)
        foretell_slice_close(to);
    handles[to] = description;
    description->references++;
    description->open_references++;
    return to;
}

/* Folders whose descriptors the slice has a number for. Of others the number stays taken when the folder is closed. */
#define FOLDERS 256

static struct {
    void *folder; /* NULL: free */
    int handle;
} folders[FOLDERS] LARGE;

/* The place of a folder, or one that is free; -1 if there is none. */
static int place_of_folder(const void *folder)
{
    int free_place = -1;
    for (int place = 0; place < FOLDERS; place++) {
        if (folders[place].folder == folder)
            return place;
        if (folders[place].folder == NULL && free_place < 0)
            free_place = place;
    }
    return free_place;
}

static int copy_of_descriptor(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, shares_descriptors ? LOWEST_DESCRIPTOR : 0);
}

int foretell_slice_dirfd(void *directory)
{
    int place = place_of_folder(directory);
    if (place >= 0 && folders[place].folder != NULL)
        return folders[place].handle;
    struct description *description = calloc(1, sizeof *description);
    if (description == NULL)
        foretell_slice_give_up();
    description->magic = DESCRIPTION;
    description->descriptor = copy_of_descriptor(dirfd(directory));
    description->unpredictable = true;
    fstat(description->descriptor, &description->status);
    int handle = new_handle(description, FIRST_HANDLE);
    if (handle < 0)
        foretell_slice_give_up();
    if (place >= 0) {
        folders[place].folder = directory;
        folders[place].handle = handle;
    }
    return handle;
}

void *foretell_slice_fdopendir(int fd)
{
    struct description *description = description_of(fd);
    if (!S_ISDIR(description->status.st_mode)) {
        errno = ENOTDIR;
        return NULL;
    }
    int copy = description->descriptor >= 0 ? copy_of_descriptor(description->descriptor) : -1;
    DIR *folder = copy >= 0 ? fdopendir(copy) : NULL;
    int place = folder != NULL ? place_of_folder(folder) : -1;
    if (place < 0)
        foretell_slice_give_up();
    folders[place].folder = folder;
    folders[place].handle = fd;
    return folder;
}

int foretell_slice_fchdir(int fd)
{
    return fchdir(description_of(fd)->descriptor);
}

int foretell_slice_closedir(void *directory)
{
    int place = place_of_folder(directory);
    if (place >= 0 && folders[place].folder != NULL) {
        folders[place].folder = NULL;
        foretell_slice_close(folders[place].handle);
    }
    return closedir(directory);
}

/* ---- descriptors ---- */

long long foretell_slice_lseek(int fd, long long offset, int whence)
{
    struct description *description = description_of(fd);
    if (description->unpredictable) {
        errno = ESPIPE;
        return -1;
    }
    if (description->printed && whence != SEEK_SET)
        foretell_slice_give_up();
    switch (whence) {
    case SEEK_SET:
        break;
    case SEEK_CUR:
        offset += description->offset;
        break;
    case SEEK_END:
        offset += description->size;
        break;
    default: /* SEEK_DATA, SEEK_HOLE */
        if (description->descriptor < 0)
            foretell_slice_give_up();
        offset = lseek(description->descriptor, offset, whence);
        if (offset < 0)
            return -1;
    }
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    return description->offset = offset;
}

int foretell_slice_fstat(int fd, struct stat *status)
{
    struct description *description = description_of(fd);
    if (description->printed)
        foretell_slice_end();
    *status = description->status;
    if (S_ISREG(status->st_mode))
        status->st_size = description->size;
    return 0;
}

static void written(struct description *description, long long end)
{
    description->written = true;
    if (end > description->size)
        description->size = end;
}

ssize_t foretell_slice_write(int fd, size_t bytes)
{
    if (fd == STDOUT_FILENO || fd == STDERR_FILENO)
        return (ssize_t)bytes;
    struct description *description = description_of(fd);
    if (description->append)
        description->offset = description->size;
    description->offset += (long long)bytes;
    written(description, description->offset);
    return (ssize_t)bytes;
}

ssize_t foretell_slice_pwrite(int fd, size_t bytes, long long offset)
{
    struct description *description = description_of(fd);
    written(description, offset + (long long)bytes);
    return (ssize_t)bytes;
}

int foretell_slice_ftruncate(int fd, long long bytes)
{
    struct description *description = description_of(fd);
    description->written = true;
    description->size = bytes;
    return 0;
}

/* Bytes that a read of `bytes` at `offset` returns: what there is up to the end of the file. */
static long long there(struct description *description, size_t bytes, long long offset)
{
    if (description->unpredictable && !S_ISDIR(description->status.st_mode))
        foretell_slice_give_up();
    if (description->printed && !description->unreadable)
        foretell_slice_end();
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    if (description->unpredictable || description->unreadable) {
        errno = description->unreadable ? EBADF : EISDIR;
        return -1;
    }
    long long left = offset < description->size ? description->size - offset : 0;
    return bytes < (unsigned long long)left ? (long long)bytes : left;
}

ssize_t foretell_prefetch_pread(int fd, size_t bytes, long long offset)
{
    struct description *description = description_of(fd);
    long long got = there(description, bytes, offset);
    predict(description, offset, got > 0 ? got : 0);
    return (ssize_t)got;
}

ssize_t foretell_prefetch_read(int fd, size_t bytes)
{
    struct description *description = description_of(fd);
    ssize_t got = foretell_prefetch_pread(fd, bytes, description->offset);
    if (got > 0)
        description->offset += got;
    return got;
}

ssize_t foretell_prefetch_readv(int fd, const struct iovec *parts, int count_of_parts)
{
    return foretell_prefetch_read(fd, bytes_of(parts, count_of_parts));
}

ssize_t foretell_prefetch_preadv(int fd, const struct iovec *parts, int count_of_parts, long long offset)
{
    return foretell_prefetch_pread(fd, bytes_of(parts, count_of_parts), offset);
}

ssize_t foretell_fetch_preadv(int fd, const struct iovec *parts, int count_of_parts, long long offset)
{
    struct description *description = description_of(fd);
    long long got = there(description, bytes_of(parts, count_of_parts), offset);
    wait_to_fetch(description, got > 0 ? got : 0);
    if (got > 0) {
        /* What the program wrote may be there or not yet. */
        if (description->written || description->descriptor < 0)
            foretell_slice_give_up();
        uint64_t begun_ns = now_ns();
        read_around(description, offset);
        if (preadv(description->descriptor, parts, count_of_parts, offset) != got)
            foretell_slice_give_up();
        note_read(description, offset, got, now_ns() - begun_ns);
    }
    predict_fetched(description, offset, got > 0 ? got : 0);
    return (ssize_t)got;
}

ssize_t foretell_fetch_readv(int fd, const struct iovec *parts, int count_of_parts)
{
    struct description *description = description_of(fd);
    ssize_t got = foretell_fetch_preadv(fd, parts, count_of_parts, description->offset);
    if (got > 0)
        description->offset += got;
    return got;
}

ssize_t foretell_fetch_pread(int fd, void *buffer, size_t bytes, long long offset)
{
    struct iovec part = {buffer, bytes};
    return foretell_fetch_preadv(fd, &part, 1, offset);
}

ssize_t foretell_fetch_read(int fd, void *buffer, size_t bytes)
{
    struct iovec part = {buffer, bytes};
    return foretell_fetch_readv(fd, &part, 1);
}
