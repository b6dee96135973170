/* The slice's side of files that the program reads and writes (the paper's section 3.2, read after write).
 *
 * The slice comes to the same writes in the same order, and writes nothing; it remembers where they are made. To read what
 * one of the last ones has changed it waits until the program has made that. What was written elsewhere in the file does
 * not matter. After a read it looks whether the program has gone on to change these bytes again meanwhile: then what
 * was there before cannot be known, and the slice ends. The program never waits.
 *
 * A file that the program has made, the slice takes from the program itself (/proc/PID/fd), or opens by its name when the
 * program has closed it, if it is the same then. */

/* The slice comes to a change. */
static void note_change(struct description *description, long long begin, long long end)
{
    if (description->slot == NULL || !description->updates)
        return;
    if (description->changes == NULL)
        description->changes = calloc(CHANGES, sizeof *description->changes);
    if (description->changes == NULL)
        foretell_slice_give_up();
    struct range *range = &description->changes[description->changed++ % CHANGES];
    atomic_store(&range->begin, begin);
    atomic_store(&range->end, end);
}

/* A stream is moved: what was written to it before is in the file then. */
static void note_turn(struct description *description)
{
    note_change(description, 0, LLONG_MAX);
}

/* The number of changes after which these bytes are what the program reads: the last one of them and all before. */
static unsigned long long changes_before(const struct description *description, long long begin, long long end)
{
    unsigned long long oldest = description->changed > CHANGES ? description->changed - CHANGES : 0;
    for (unsigned long long number = description->changed; number > oldest; number--) {
        const struct range *range = &description->changes[(number - 1) % CHANGES];
        if (atomic_load(&range->begin) < end && begin < atomic_load(&range->end))
            return number;
    }
    return oldest;
}

static void wait_for_word(atomic_ullong *word, unsigned long long at_least);

/* The file that the program has, to be read by the slice. Ends the slice if it is gone. */
static void take_over(struct description *description)
{
    char path[64];
    struct stat status;
    struct file *slot = description->slot;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)early.program, atomic_load(&slot->descriptor));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && (atomic_load(&slot->sides) & PROGRAM_CLOSED) != 0) {
        close(fd); /* the number may have been another file's */
        fd = -1;
    }
    if (fd < 0 && description->name != NULL)
        fd = open(description->name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        foretell_slice_end();
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_dev != atomic_load(&slot->device) ||
        status.st_ino != atomic_load(&slot->inode)) {
        close(fd);
        foretell_slice_end();
    }
    if (description->stream != NULL)
        fclose(description->stream); /* with what was in its buffer */
    else if (description->descriptor >= 0)
        close(description->descriptor);
    description->stream = NULL;
    description->descriptor = shares_descriptors ? out_of_the_way(fd) : fd;
    description->status = status;
}

/* Waits until what the program reads at this place is in the file. */
static void await_changes(struct description *description, long long begin, long long end)
{
    if (description->slot == NULL || (!description->updates && description->descriptor < 0))
        foretell_slice_end();
    unsigned long long needed =
        description->descriptor < 0 ? description->changed : changes_before(description, begin, end);
    leave_if_over();
    if (needed > 0)
        wait_for_word(&description->slot->changed, needed);
    if (description->descriptor < 0)
        take_over(description);
}

/* The same of a stream, of which it is not known where it was written to. */
static void await_turns(struct description *description)
{
    if (description->slot == NULL || !description->updates || description->lost || description->changed == 0)
        foretell_slice_end();
    if (description->seen == description->changed && description->descriptor >= 0)
        return;
    leave_if_over();
    wait_for_word(&description->slot->changed, description->changed);
    take_over(description);
    if (description->printed)
        description->size = description->status.st_size;
    description->printed = false;
    description->seen = description->changed;
}

/* These bytes have been read. Ends the slice if the program may have changed them meanwhile. */
static void check_changes(const struct description *description, long long begin, long long end)
{
    struct file *slot = description->slot;
    if (slot == NULL || !description->updates)
        return;
    unsigned long long changing = atomic_load(&slot->changing);
    for (unsigned long long number = description->changed; number < changing; number++) {
        const struct range *range = &slot->changes[number % CHANGES];
        if (changing - number > CHANGES || (atomic_load(&range->begin) < end && begin < atomic_load(&range->end)))
            foretell_slice_end();
    }
    if (atomic_load(&slot->changing) > description->changed + CHANGES)
        foretell_slice_end();
}
