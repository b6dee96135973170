/* What the slice has from the program: mapped memory, which both see, values that are sent, and signals at
 * synchronisation points. */

/* ---- mapped memory ---- */

void *foretell_slice_mmap(void *address, size_t bytes, int protection, int flags, int fd, long long offset)
{
    if (flags & MAP_ANONYMOUS)
        return mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct description *description = description_of(fd);
    (void)address;
    if (flags & MAP_FIXED || description->descriptor < 0 || description->written)
        foretell_slice_give_up();
    void *begin = mmap(NULL, bytes, PROT_READ | (protection & PROT_WRITE),
                       protection & PROT_WRITE ? MAP_PRIVATE : MAP_SHARED, description->descriptor, offset);
    if (begin != MAP_FAILED) {
        if (add_mapping(slice_mappings, begin, bytes, offset, description) == NULL)
            foretell_slice_give_up();
        description->references++;
        description->open_references++;
    }
    return begin;
}

int foretell_slice_munmap(void *address, size_t bytes)
{
    struct mapping *mapping = find_mapping(slice_mappings, address);
    if (mapping != NULL && mapping->begin == (const char *)address) {
        struct description *description = mapping->owner;
        mapping->owner = NULL;
        let_go_description(description);
    }
    return munmap(address, bytes);
}

/* The mapping of an address, if the program counts what it does there. */
static struct mapping *counted_mapping(const void *address)
{
    struct mapping *mapping = find_mapping(slice_mappings, address);
    struct file *slot = mapping != NULL ? ((struct description *)mapping->owner)->slot : NULL;
    return slot != NULL && atomic_load_explicit(&slot->is_uncounted, memory_order_relaxed) != 0 ? NULL : mapping;
}

void foretell_prefetch_access(const void *address, size_t bytes)
{
    struct mapping *mapping = counted_mapping(address);
    if (mapping == NULL)
        return;
    long long offset = mapping->offset + ((const char *)address - mapping->begin);
    if (leaves(&mapping->window, offset, (long long)bytes))
        predict(mapping->owner, offset, (long long)bytes);
}

void *foretell_fetch_access(const void *address, size_t bytes)
{
    struct mapping *mapping = counted_mapping(address);
    if (mapping != NULL) {
        long long offset = mapping->offset + ((const char *)address - mapping->begin);
        if (leaves(&mapping->window, offset, (long long)bytes)) {
            wait_to_fetch(mapping->owner, (long long)bytes);
            volatile const char *touched = address;
            (void)*touched;
            predict_fetched(mapping->owner, offset, (long long)bytes);
        }
    }
    return (void *)(uintptr_t)address;
}

/* ---- from the program ---- */

/* Waits for a signal or a message; what is queued goes out meanwhile. */
static void wait_for_word(atomic_ullong *word, unsigned long long at_least)
{
    uint64_t nap_ns = NAP_NS;
    while (atomic_load(word) < at_least) {
        /* What the program did last, just before its end, still counts. */
        if (!program_runs() && atomic_load(word) < at_least)
            leave_slice();
        serve(true);
        unsigned wake = atomic_load(&shared->wake);
        note_usage();
        atomic_store(&shared->wake_at, ULLONG_MAX);
        atomic_store(&shared->sleeping, 1);
        if (atomic_load(word) < at_least && program_runs())
            futex_wait(&shared->wake, wake, nap_ns);
        atomic_store(&shared->sleeping, 0);
        nap_ns = nap_ns * 2 < LONGEST_NAP_NS ? nap_ns * 2 : LONGEST_NAP_NS;
        leave_if_orphaned();
    }
}

void foretell_synchronize_wait(unsigned point)
{
    static unsigned long long waited[FORETELL_SYNC_POINTS] LARGE;
    if (point >= FORETELL_SYNC_POINTS)
        foretell_slice_give_up();
    wait_for_word(&shared->signals[point], ++waited[point]);
}

void foretell_synchronize_signal(unsigned point)
{
    if (counting() && point < FORETELL_SYNC_POINTS && share()) {
        atomic_fetch_add(&shared->signals[point], 1);
        wake_slice();
    }
}

struct message {
    unsigned channel, bytes;
};

/* In place of a value: here the slice ends. */
#define CHANNEL_OF_THE_END UINT_MAX

/* Messages take whole multiples of their header's size, so that a header never wraps around. */
static unsigned long long room_of(size_t bytes)
{
    return sizeof(struct message) + (bytes + sizeof(struct message) - 1) / sizeof(struct message) * sizeof(struct message);
}

static void copy_in(unsigned long long at, const void *from, size_t bytes)
{
    size_t begin = at % CHANNEL_BYTES, first = bytes < CHANNEL_BYTES - begin ? bytes : CHANNEL_BYTES - begin;
    memcpy(shared->channel + begin, from, first);
    memcpy(shared->channel, (const char *)from + first, bytes - first);
}

static void copy_out(void *to, unsigned long long at, size_t bytes)
{
    size_t begin = at % CHANNEL_BYTES, first = bytes < CHANNEL_BYTES - begin ? bytes : CHANNEL_BYTES - begin;
    memcpy(to, shared->channel + begin, first);
    memcpy((char *)to + first, shared->channel, bytes - first);
}

/* Keeps a message as long as there is no channel; false if there is no room. */
static bool keep_early(const struct message *message, const void *value)
{
    size_t needed = (size_t)room_of(message->bytes);
    if (needed > EARLY_BYTES - early.sent_bytes)
        return false;
    memcpy(early.sent + early.sent_bytes, message, sizeof *message);
    if (message->bytes > 0)
        memcpy(early.sent + early.sent_bytes + sizeof *message, value, message->bytes);
    early.sent_bytes += (unsigned)needed;
    return true;
}

/* The channel begins with what was kept. */
static void share_messages(void)
{
    copy_in(0, early.sent, early.sent_bytes);
    atomic_store(&shared->channel_sent, early.sent_bytes);
}

void foretell_send(unsigned channel, const void *value, size_t bytes)
{
    if (!counting() || (shared != NULL && atomic_load(&shared->slice_ended)))
        return;
    if (value == NULL)
        bytes = 0; /* where the call would have written, had it been told to */
    if (bytes > FORETELL_MESSAGE_BYTES) {
        stop(OVERFLOWED);
        return;
    }
    struct message message = {channel, (unsigned)bytes};
    if (shared == NULL && (keep_early(&message, value) || !share()))
        return;
    unsigned long long sent = atomic_load(&shared->channel_sent), needed = room_of(bytes);
    uint64_t since = 0;
    if (sent + needed - atomic_load(&shared->channel_received) > CHANNEL_BYTES / 2) {
        start_late(); /* so that somebody receives */
        if (atomic_load(&shared->dozing))
            end_doze();
    }
    while (sent + needed - atomic_load(&shared->channel_received) > CHANNEL_BYTES) {
        uint64_t now = now_ns();
        since = since == 0 ? now : since;
        if (now - since > CHANNEL_WAIT_NS)
            stop(OVERFLOWED);
        if (!running())
            return;
        sched_yield();
    }
    copy_in(sent, &message, sizeof message);
    if (bytes > 0)
        copy_in(sent + sizeof message, value, bytes);
    atomic_store(&shared->channel_sent, sent + needed);
    wake_slice();
}

/* Messages that say what the slice has found out already; slice_input.h */
static void pass_over(bool waits);

size_t foretell_receive(unsigned channel, void *value, size_t room)
{
    int saved = errno; /* waiting is nothing that the program does */
    struct message message;
    leave_if_over();
    pass_over(true);
    unsigned long long received = atomic_load(&shared->channel_received);
    wait_for_word(&shared->channel_sent, received + 1);
    copy_out(&message, received, sizeof message);
    if (message.channel == CHANNEL_OF_THE_END)
        foretell_slice_end();
    if (message.channel != channel)
        foretell_slice_give_up();
    if (value != NULL && message.bytes > 0)
        copy_out(value, received + sizeof message, message.bytes < room ? message.bytes : room);
    atomic_store(&shared->channel_received, received + room_of(message.bytes));
    errno = saved;
    return message.bytes;
}
