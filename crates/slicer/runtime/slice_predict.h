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
