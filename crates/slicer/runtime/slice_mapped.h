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
struct foretell_window foretell_mapped_window = {SIZE_MAX, FORETELL_LEAST_WINDOW};

static void show_window(size_t begin, size_t bytes)
{
    __atomic_store_n(&foretell_mapped_window.begin, SIZE_MAX, __ATOMIC_RELAXED);
    __atomic_store_n(&foretell_mapped_window.bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&foretell_mapped_window.begin, begin, __ATOMIC_RELAXED);
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
        show_window(SIZE_MAX, FORETELL_LEAST_WINDOW);
    }
    return begin;
}

int foretell_real_munmap(void *address, size_t bytes)
{
    struct mapping *mapping = counting() ? find_mapping(real_mappings, address) : NULL;
    if (mapping != NULL && mapping->begin == (const char *)address) {
        struct real_file *file = mapping->owner;
        mapping->owner = NULL;
        show_window(SIZE_MAX, FORETELL_LEAST_WINDOW);
        let_go(file);
    }
    return munmap(address, bytes);
}

void *foretell_counted_access(const void *address, size_t bytes)
{
    struct mapping *mapping = counting() ? find_mapping(real_mappings, address) : NULL;
    if (mapping == NULL) {
        if (!counting())
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
