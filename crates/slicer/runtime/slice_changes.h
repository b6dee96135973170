/* The program's side of files that it reads and writes: its changes are counted, and where they are made is told, so that
 * the slice can wait for those that it needs (slice_written.h). Of a descriptor each write is one. What is written to a
 * stream is in the file when the stream is moved, which must be done before it is read (ISO C, 7.21.5.3): so that
 * is its change, of the whole file. */

/* Nothing where nobody follows the file, or it is not open for both. */
static void begin_change(struct real_file *file, long long begin, long long end)
{
    if (file == NULL || !file->updates || file->slot == NULL)
        return;
    unsigned long long number = atomic_load_explicit(&file->slot->changing, memory_order_relaxed);
    struct range *range = &file->slot->changes[number % CHANGES];
    atomic_store(&range->begin, begin);
    atomic_store(&range->end, end);
    atomic_store(&file->slot->changing, number + 1);
}

static void end_change(struct real_file *file)
{
    if (file == NULL || !file->updates)
        return;
    file->changed++;
    if (file->slot == NULL)
        return;
    int saved = errno;
    atomic_store(&file->slot->changed, file->changed);
    wake_slice();
    errno = saved;
}

/* The file of a descriptor, if the program reads and writes it. */
static struct real_file *updated(int fd)
{
    struct real_file *file = is_free(fd) ? NULL : real_file(fd);
    return file != NULL && file->updates ? file : NULL;
}

ssize_t foretell_real_write(int fd, const void *buffer, size_t bytes)
{
    struct real_file *file = updated(fd);
    if (file != NULL && file->slot != NULL) {
        long long begin = file->appends ? 0 : lseek(fd, 0, SEEK_CUR);
        begin_change(file, begin, file->appends ? LLONG_MAX : begin + (long long)bytes);
    }
    ssize_t wrote = write(fd, buffer, bytes);
    end_change(file);
    return wrote;
}

ssize_t foretell_real_pwrite(int fd, const void *buffer, size_t bytes, long long offset)
{
    struct real_file *file = updated(fd);
    bool appends = file != NULL && file->appends; /* wherever it is told to, on Linux (pwrite(2), bugs) */
    begin_change(file, appends ? 0 : offset, appends ? LLONG_MAX : offset + (long long)bytes);
    ssize_t wrote = pwrite(fd, buffer, bytes, offset);
    end_change(file);
    return wrote;
}

int foretell_real_ftruncate(int fd, long long bytes)
{
    struct real_file *file = updated(fd);
    begin_change(file, bytes, LLONG_MAX);
    int result = ftruncate(fd, bytes);
    end_change(file);
    return result;
}
