/* The program's mapped memory: an access is counted where it leaves the pages that the last one touched. Mappings of both
 * sides are kept alike. */

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

/* The mapping that an address lies in. Places are taken from the first on: behind one that was never taken is none. */
static struct mapping *find_mapping(struct mapping *mappings, const void *address)
{
    for (struct mapping *mapping = mappings; mapping < mappings + MAPPINGS && mapping->begin != NULL; mapping++)
        if (mapping->owner != NULL && (const char *)address >= mapping->begin && (const char *)address < mapping->end)
            return mapping;
    return NULL;
}

/* The window of the last counted access, as the inline check sees it; everything, when nothing is counted. */
struct foretell_window foretell_mapped_window = {0, SIZE_MAX};

static void show_window(size_t begin, size_t bytes)
{
    __atomic_store_n(&foretell_mapped_window.begin, SIZE_MAX, __ATOMIC_RELAXED);
    __atomic_store_n(&foretell_mapped_window.bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&foretell_mapped_window.begin, begin, __ATOMIC_RELAXED);
}

/* All memory around an address that lies in no mapping that is counted. */
static void show_gap(const char *address)
{
    size_t begin = 0, end = SIZE_MAX;
    for (struct mapping *mapping = real_mappings; mapping < real_mappings + MAPPINGS && mapping->begin != NULL; mapping++) {
        if (mapping->owner == NULL)
            continue;
        if (mapping->end <= address && (size_t)mapping->end > begin)
            begin = (size_t)mapping->end;
        if (mapping->begin > address && (size_t)mapping->begin < end)
            end = (size_t)mapping->begin;
    }
    show_window(begin, end - begin);
}

/* Nothing has been touched yet of what is mapped, if anything is. */
static void show_anew(void)
{
    bool any = false;
    for (struct mapping *mapping = real_mappings; mapping < real_mappings + MAPPINGS && mapping->begin != NULL; mapping++)
        any |= mapping->owner != NULL;
    if (any)
        show_window(SIZE_MAX, FORETELL_LEAST_WINDOW);
    else
        show_window(0, SIZE_MAX);
}

/* Of a mapping so many pages are looked at. */
#define PAGES_LOOKED_AT 16

/* Is there nothing to wait for? Read is what is in memory alone; mincore(2) says nothing of the files of others, but will
 * do where a file system knows no such read. */
static bool is_in_memory(int fd, char *begin, size_t bytes, long long offset)
{
    size_t page = (size_t)page_bytes(), pages = (bytes + page - 1) / page;
    size_t looked_at = pages < PAGES_LOOKED_AT ? pages : PAGES_LOOKED_AT;
    for (size_t n = 0; n < looked_at; n++) {
        size_t at = looked_at < 2 ? 0 : (pages - 1) * n / (looked_at - 1) * page;
        char byte;
        struct iovec part = {&byte, 1};
        long got = syscall(SYS_preadv2, fd, &part, 1ul, (unsigned long)(offset + (long long)at), 0ul, RWF_NOWAIT);
        unsigned char there = 0;
        if (got < 0 && errno != EAGAIN && mincore(begin + at, 1, &there) == 0 && there & 1)
            continue;
        if (got < 0)
            return false;
    }
    return true;
}

/* A file that lies in memory when it is mapped is not counted there, as long as there is no slice; nor later on, as
 * both sides have to count alike. */
static bool is_uncounted(struct real_file *file, int fd, char *begin, size_t bytes, long long offset)
{
    if (!file->is_mapped && atomic_load_explicit(&early.unstarted, memory_order_relaxed) != 0) {
        int saved = errno;
        file->is_uncounted = is_in_memory(fd, begin, bytes, offset);
        errno = saved;
    }
    file->is_mapped = true;
    return file->is_uncounted;
}

void *foretell_real_mmap(void *address, size_t bytes, int protection, int flags, int fd, long long offset)
{
    void *begin = mmap(address, bytes, protection, flags, fd, offset);
    struct real_file *file = begin != MAP_FAILED && !(flags & MAP_ANONYMOUS) ? real_file(fd) : NULL;
    if (file != NULL && !is_uncounted(file, fd, begin, bytes, offset)) {
        if (add_mapping(real_mappings, begin, bytes, offset, file) != NULL)
            atomic_fetch_add(&file->references, 1);
        else
            stop(OVERFLOWED);
        show_anew();
    }
    return begin;
}

int foretell_real_munmap(void *address, size_t bytes)
{
    struct mapping *mapping = counting() ? find_mapping(real_mappings, address) : NULL;
    if (mapping != NULL && mapping->begin == (const char *)address) {
        struct real_file *file = mapping->owner;
        mapping->owner = NULL;
        show_anew();
        let_go(file);
    }
    return munmap(address, bytes);
}

void *foretell_counted_access(const void *address, size_t bytes)
{
    struct mapping *mapping = counting() ? find_mapping(real_mappings, address) : NULL;
    if (mapping == NULL) {
        if (counting())
            show_gap(address);
        else
            show_window(0, SIZE_MAX);
        return (void *)(uintptr_t)address;
    }
    long long offset = mapping->offset + ((const char *)address - mapping->begin);
    if (leaves(&mapping->window, offset, (long long)bytes)) {
        uint64_t begun_ns = begin_access(mapping->owner);
        volatile const char *touched = address;
        (void)*touched; /* the fault is the access */
        end_access(mapping->owner, begun_ns, offset, (long long)bytes);
    }
    show_window((size_t)mapping->begin + (size_t)(mapping->window.begin - mapping->offset),
                (size_t)(mapping->window.end - mapping->window.begin));
    return (void *)(uintptr_t)address;
}
