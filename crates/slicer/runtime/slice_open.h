/* Opening and closing in the slice: files, their descriptors, and those of folders. */

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
    bool reads = !empty && access_mode != O_WRONLY, made = reads && is_made(directory, path);
    if (made)
        wait_for_open(site, number);
    int how = flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0, found = fstatat(directory, path, &status, how);
    bool changed = found == 0 && reads && !made && number != 0 && is_changed(&status);
    if (changed) {
        wait_for_open(site, number);
        found = fstatat(directory, path, &status, how);
    }
    if (access_mode != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0)
        note_made(directory, path);
    if (found != 0) {
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
    description->updates = access_mode == O_RDWR;
    if (descriptor < 0 && description->updates && directory == AT_FDCWD)
        description->name = strdup(path);
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
        if (changed && description->left_behind)
            foretell_slice_end(); /* the program may have read what was there before */
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
