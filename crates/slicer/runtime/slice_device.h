/* The files of the slice and the device that they lie on: where, how long a request takes (the paper's T), how
 * many are under way (K), and whether it is one that takes long to find a place and little to read on there.
 *
 * T is measured by looking (mincore(2)) when the last page of a batch has come. A whole batch also tells what the
 * device spends its time with: when it took more than twice as long as a disk needs to transfer as much, most
 * of it was positioning, which longer batches have less of, as more of their requests are neighbours. If it did
 * not, a longer batch only keeps the program waiting for what it needs first.
 *
 * What the slice has to read itself, it waits for. Where that takes as long as positioning, it reads the
 * surroundings as well, AROUND_BYTES instead of a page, for a sixth of the time that another request would take:
 * the pages of an index lie together. It goes on with that as long as one in AROUND_SHARE of such readings has
 * spared another, the first few granted. */

/* Most bytes of a gap that are read for nothing, while T is not known and then, and the rate at which reading them
 * is weighed against a request: that of a disk, as faster devices have shorter requests, too. */
#define FIRST_GAP_BYTES (32 << 10)
#define GAP_BYTES (256 << 10)
#define GAP_BYTES_PER_US 100
/* The kernel loads at most one read-ahead window a call (128 KiB unless changed). */
#define REQUEST_BYTES (128 << 10)
/* Extents of a file that are known by place; further ones are ordered by their offset. */
#define EXTENTS 128
/* Batches whose completion is awaited; beyond, and after a second, a batch is taken as complete. */
#define BATCHES 32
#define BATCH_LOST_NS 1000000000ull
/* Time between two looks at batches while nothing else is done. */
#define LOOK_NS 100000ull
/* Time in which a device has begun to answer, beside its transfers. */
#define ANSWER_NS 1000000ull
/* A request that takes so long is one of a disk with a head that moves. */
#define POSITIONING_NS 3000000ull
/* A read that takes so long was not from memory. */
#define WAITED_NS 200000ull
/* See above; and the pages of one, a bit each. Files of more such parts than AROUND_PARTS are read as asked. */
#define AROUND_BYTES (128 << 10)
#define AROUND_SHARE 4
#define AROUND_GRANTED 8
#define AROUND_PARTS 65536
#define AROUND_ASKED (1ull << 63)

struct extent {
    long long logical, physical, bytes;
};

#define DESCRIPTION 0x51ce51ceu

/* An open file of the slice: an open file description of its own. */
struct description {
    unsigned magic;     /* DESCRIPTION: one of ours, and no stream of libc's */
    struct file *slot;  /* NULL: neither predicted nor counted */
    int descriptor;     /* -1: the file exists in the slice alone */
    int references;     /* descriptors of the slice, mappings, requests, batches */
    int open_references; /* descriptors of the slice, mappings */
    int handle;         /* of the stream */
    unsigned named;     /* what the service calls it; 0: it does not know of it */
    bool unpredictable; /* not a file with a size: nothing is known of it */
    bool unreadable, append;
    bool updates;        /* open for reading and writing */
    bool written;        /* what is in the file depends on what the program has written */
    char *name;          /* of a file that is made, to be opened when it is there */
    struct range *changes; /* the last ones that the slice came to; slice_written.h */
    unsigned long long changed, seen; /* how many there were, and were when the stream was read last */
    bool printed;        /* it is not known how much */
    bool lost;           /* nor where the stream stands */
    bool at_end, failed; /* feof, ferror */
    unsigned long long key; /* of the slot, when it was ours */
    unsigned site;          /* that a file is of which is opened by freopen */
    bool is_replaced;       /* freopen has given its stream another file, or none */
    struct description *replacement;
    bool left_behind;       /* by the program, which needs nothing of it any more */
    unsigned long long accesses_left_behind;
    uint64_t fetch_begun_ns;
    struct stat status; /* at the opening */
    long long size, offset;
    char *path;
    FILE *stream; /* for fetch_X on streams */
    long long buffer_end; /* where in the file the bytes end that the stream has in its buffer */
    struct window window;
    struct window queued; /* the last pages asked for */
    long long asked_to, fetched_to; /* the last range that was asked for, and the last one that was read, end there */
    const char *probe; /* a mapping, for mincore */
    struct extent *extents;
    unsigned extent_count;
    bool extents_known;
    unsigned long long *parts; /* of AROUND_BYTES: which pages the slice has read, and AROUND_ASKED */
    unsigned around_asked, around_spared;
};

struct batch {
    struct description *description;
    long long page; /* the last one asked for */
    uint64_t asked_ns;
    unsigned requests;
    long long bytes;
    bool whole; /* long enough to learn from */
};

enum device_kind { UNKNOWN, TRANSFERS, POSITIONS };

static struct {
    struct batch batches[BATCHES];
    unsigned first_batch, batch_count, whole_count, requests_under_way;
    uint64_t looked_ns; /* at the batches */
    enum device_kind kind; /* what whole batches spend most of their time with */
    uint64_t done_ns;      /* when the last batch had come */
    uint64_t wait_ns; /* of the slice's own reads that were not from memory: falls at once, rises slowly */
    unsigned long long sectors_prefetched, ranges; /* asked for so far */
    unsigned long long jumps, onwards; /* of them that came: ranges that follow none, and sectors that do */
    uint64_t spared_ns; /* waits of the slice's own, for which the program need not wait */
} device LARGE;

static void release(struct description *description)
{
    if (--description->references > 0)
        return;
    leave_file(description->named);
    if (description->probe != NULL)
        munmap((void *)(uintptr_t)description->probe, (size_t)description->size);
    if (description->stream != NULL)
        fclose(description->stream); /* closes the descriptor */
    else if (description->descriptor >= 0)
        close(description->descriptor);
    free(description->extents);
    free(description->parts);
    free(description->path);
    free(description->name);
    free(description->changes);
    description->magic = 0;
    free(description);
}

/* ---- where a file lies ---- */

static void learn_extents(struct description *description)
{
    size_t bytes = sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent);
    struct fiemap *map = calloc(1, bytes);
    description->extents_known = true;
    if (map == NULL)
        return;
    map->fm_length = FIEMAP_MAX_OFFSET;
    map->fm_extent_count = EXTENTS;
    if (ioctl(description->descriptor, FS_IOC_FIEMAP, map) == 0 && map->fm_mapped_extents > 0) {
        description->extents = calloc(map->fm_mapped_extents, sizeof(struct extent));
        for (unsigned i = 0; description->extents != NULL && i < map->fm_mapped_extents; i++) {
            const struct fiemap_extent *from = &map->fm_extents[i];
            description->extents[i] =
                (struct extent){(long long)from->fe_logical, (long long)from->fe_physical, (long long)from->fe_length};
            description->extent_count = i + 1;
        }
    }
    free(map);
}

static long long place(struct description *description, long long offset)
{
    if (!description->extents_known)
        learn_extents(description);
    for (unsigned low = 0, high = description->extent_count; low < high;) {
        unsigned middle = (low + high) / 2;
        const struct extent *extent = &description->extents[middle];
        if (offset < extent->logical)
            high = middle;
        else if (offset >= extent->logical + extent->bytes)
            low = middle + 1;
        else
            return extent->physical + (offset - extent->logical);
    }
    return offset;
}

/* ---- T and K ---- */

static bool is_cached(struct description *description, long long page)
{
    unsigned char there = 1;
    if (description->probe == NULL) {
        void *probe = mmap(NULL, (size_t)description->size, PROT_READ, MAP_SHARED, description->descriptor, 0);
        if (probe == MAP_FAILED)
            return true;
        description->probe = probe;
    }
    return mincore((void *)(uintptr_t)(description->probe + page), 1, &there) != 0 || (there & 1) != 0;
}

/* Sectors that this process or thread has read from devices so far. */
static unsigned long long sectors_read(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (unsigned long long)usage.ru_inblock : 0;
}

/* Has it taken so long that most of the time goes into positioning? */
static bool is_slow(const struct batch *batch, uint64_t now)
{
    uint64_t since = batch->asked_ns > device.done_ns ? batch->asked_ns : device.done_ns;
    return now - since > 2000 * (uint64_t)batch->bytes / GAP_BYTES_PER_US + ANSWER_NS;
}

static void look_at_batches(void)
{
    uint64_t now = now_ns();
    device.looked_ns = now;
    while (device.batch_count > 0) {
        struct batch *batch = &device.batches[device.first_batch];
        bool lost = now - batch->asked_ns > BATCH_LOST_NS || device.batch_count == BATCHES;
        bool done = is_cached(batch->description, batch->page);
        if (batch->whole && (done || is_slow(batch, now)))
            device.kind = is_slow(batch, now) ? POSITIONS : TRANSFERS;
        if (!done && !lost)
            break;
        if (done) {
            average(&shared->service_ns, (now - batch->asked_ns) / (device.requests_under_way + 1));
            device.done_ns = now;
        }
        device.requests_under_way -= batch->requests;
        device.whole_count -= batch->whole;
        release(batch->description);
        device.first_batch = (device.first_batch + 1) % BATCHES;
        device.batch_count--;
    }
}

/* Are two whole batches under way? They keep a device busy that transfers most of the time, and one of which
 * nothing is known yet. More would be sorted among each other by the kernel, and what the program needs first
 * would come with what it needs last. */
static bool has_enough(void)
{
    if (device.whole_count > 1 && now_ns() - device.looked_ns > LOOK_NS)
        look_at_batches();
    return device.whole_count > 1 && device.kind != POSITIONS;
}

/* What it takes to find a place on a disk with a head that moves; 0 for others, and as long as nothing is known. */
static uint64_t positioning_ns(void)
{
    uint64_t service_ns = atomic_load(&shared->service_ns);
    uint64_t time_ns = service_ns != 0 ? service_ns : device.wait_ns;
    return time_ns >= POSITIONING_NS ? time_ns : 0;
}

static void ask_for(struct description *description, long long begin, long long end)
{
    unsigned long long before = sectors_read();
    bool follows = begin == description->asked_to;
    description->asked_to = end;
    for (; begin < end; begin += REQUEST_BYTES) {
        long long bytes = end - begin < REQUEST_BYTES ? end - begin : REQUEST_BYTES;
        readahead(description->descriptor, begin, (size_t)bytes);
        count(&shared->requests, 1);
        count(&shared->request_bytes, (uint64_t)bytes);
    }
    unsigned long long brought = sectors_read() - before;
    device.sectors_prefetched += brought;
    if (follows)
        device.onwards += brought;
    else
        device.jumps += brought > 0;
}

/* Up to which size a gap costs less than a request. */
static long long worthwhile_gap(void)
{
    unsigned long long service_us = atomic_load(&shared->service_ns) / 1000;
    if (service_us == 0)
        return FIRST_GAP_BYTES;
    return service_us * GAP_BYTES_PER_US < GAP_BYTES ? (long long)(service_us * GAP_BYTES_PER_US) : GAP_BYTES;
}

/* The slice has waited for a read of its own, or not. */
static void note_wait(uint64_t waited_ns)
{
    if (waited_ns < WAITED_NS)
        return;
    if (device.wait_ns == 0 || waited_ns < device.wait_ns)
        device.wait_ns = waited_ns;
    else
        device.wait_ns += (waited_ns - device.wait_ns) / 8; /* a busy machine makes some longer */
}

/* The same, of what was read: a range that follows no other one is spared the program. */
static void note_read(struct description *description, long long offset, long long bytes, uint64_t waited_ns)
{
    long long page = page_bytes(), reached = description->fetched_to;
    bool follows = reached != 0 && offset >= reached - page && offset <= reached + page;
    description->fetched_to = offset + bytes;
    if (!follows && waited_ns >= WAITED_NS)
        device.spared_ns += waited_ns;
    note_wait(waited_ns);
}

/* Before a read of the slice's own: asks for what lies around it, where that has proved worth it. */
static void read_around(struct description *description, long long offset)
{
    long long part = offset / AROUND_BYTES, parts = description->size / AROUND_BYTES + 1;
    unsigned long long page = 1ull << offset % AROUND_BYTES / (AROUND_BYTES / 32);
    if (device.wait_ns < POSITIONING_NS || parts > AROUND_PARTS || offset >= description->size)
        return;
    if (description->parts == NULL)
        description->parts = calloc((size_t)parts, sizeof *description->parts);
    if (description->parts == NULL)
        return;
    unsigned long long *pages = &description->parts[part];
    bool again = (*pages & page) != 0;
    *pages |= page;
    if (*pages & AROUND_ASKED) {
        description->around_spared += !again;
    } else if (!again && description->around_asked < AROUND_GRANTED + AROUND_SHARE * description->around_spared &&
               !is_cached(description, offset / page_bytes() * page_bytes())) {
        *pages |= AROUND_ASKED;
        description->around_asked++;
        readahead(description->descriptor, part * AROUND_BYTES, AROUND_BYTES);
    }
}

/* ---- what cannot be opened ---- */

/* Does open(2) fail of what this is: a socket, or the terminal of a session that has none? A device is not opened to find that
   out, as that may do something; this one is harmless. errno says why. */
static bool is_closed_to_all(int directory, const char *path, const struct stat *status)
{
    if (S_ISSOCK(status->st_mode)) {
        errno = ENXIO;
        return true;
    }
    if (!S_ISCHR(status->st_mode) || status->st_rdev != makedev(5, 0))
        return false;
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == ENXIO;
}
