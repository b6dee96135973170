/* The slice's descriptors: where they stand, what reading them gives, and a prediction for each read. */

long long foretell_slice_lseek(int fd, long long offset, int whence)
{
    struct description *description = description_of(fd);
    if (description->unpredictable) {
        errno = ESPIPE;
        return -1;
    }
    if (description->printed && whence != SEEK_SET)
        foretell_slice_give_up();
    description->lost = false;
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

/* Writes where the file stands. Returns where that was. */
static long long write_on(struct description *description, size_t bytes)
{
    if (description->append)
        description->offset = description->size;
    long long begin = description->offset;
    description->offset += (long long)bytes;
    written(description, description->offset);
    return begin;
}

ssize_t foretell_slice_write(int fd, size_t bytes)
{
    if (fd == STDOUT_FILENO || fd == STDERR_FILENO)
        return (ssize_t)bytes;
    struct description *description = description_of(fd);
    long long begin = write_on(description, bytes);
    note_change(description, description->append ? 0 : begin, description->append ? LLONG_MAX : description->offset);
    return (ssize_t)bytes;
}

ssize_t foretell_slice_pwrite(int fd, size_t bytes, long long offset)
{
    struct description *description = description_of(fd);
    written(description, offset + (long long)bytes);
    note_change(description, description->append ? 0 : offset, description->append ? LLONG_MAX : offset + (long long)bytes);
    return (ssize_t)bytes;
}

int foretell_slice_ftruncate(int fd, long long bytes)
{
    struct description *description = description_of(fd);
    description->written = true;
    description->size = bytes;
    note_change(description, bytes, LLONG_MAX);
    return 0;
}

/* Bytes that a read of `bytes` at `offset` returns: what there is up to the end of the file. */
static long long there(struct description *description, size_t bytes, long long offset)
{
    if (description->unpredictable && !S_ISDIR(description->status.st_mode))
        foretell_slice_give_up();
    if (description->printed && !description->unreadable)
        await_turns(description);
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
        if (description->written || description->descriptor < 0)
            await_changes(description, offset, offset + got);
        uint64_t begun_ns = now_ns();
        read_around(description, offset);
        if (preadv(description->descriptor, parts, count_of_parts, offset) != got)
            foretell_slice_give_up();
        check_changes(description, offset, offset + got);
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
