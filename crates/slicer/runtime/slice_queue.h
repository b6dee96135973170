/* The prefetch queue (the paper's section 5). A request is served at time t if
 *
 *     C (j - i) - (K + 1) T <= Time_Threshold    and    j - i <= Queue_Threshold
 *
 * and if the budget of bytes that were prefetched and not yet used allows it. j - i is how many predicted
 * accesses the program has not made before this one; C the program's average time between two accesses; K
 * the requests that the device has not completed; T its average service time. C is measured by the program
 * at each access, T and K by slice_device.h.
 *
 * Requests whose access the program has made in the meantime are skipped. The others are served in batches:
 * sorted by their place on the device (FIEMAP), neighbours joined, so that a file that is read backwards is
 * fetched forwards, in pieces. A small gap between two requests is read as well where that takes less than
 * another request. A batch is served when it is long enough, or its oldest has waited for BATCH_NS, or the
 * slice is about to wait for the program. Long enough is FIRST_BATCH at first, as the program is waiting, and two
 * such batches keep a device busy; what comes behind them waits until one has come, which also tells what the
 * device spends its time with. If that is transferring, it stays like this: what the program needs first also
 * comes first. If it is positioning, nothing waits any more, and each is longer than the one before, up to half
 * of Queue_Threshold: the more requests are sorted together, the more of them are neighbours, and the other half
 * is what the program lives on meanwhile.
 *
 * When the slice is about to wait for a read of its own, there will be more requests behind it. It is served
 * what there is, too, unless a request takes as long as on a disk with a head that moves: there the requests are
 * held back until they have waited as long as the device would need for them one by one. So they are served at
 * the latest when holding them back has cost what it can spare. */

#define FIRST_BATCH 256
#define BATCH_GROWTH 4
#define BATCH_NS 1000000ull
#define QUEUE 4096
/* Time_Threshold: far more than any device needs for one batch; the budget binds first. */
#define TIME_THRESHOLD_NS 1000000000ull
#define BUDGET_BYTES (32ull << 20)
/* The slice sleeps at most this long, then looks again: the paper's timer. */
#define NAP_NS 10000000ull
#define LONGEST_NAP_NS 100000000ull
/* The same while requests wait for batches under way. */
#define BUSY_NAP_NS 500000ull

struct request {
    struct description *description;
    unsigned long long number, serial;
    long long begin, end;
};

struct used {
    unsigned long long serial;
    long long bytes;
};

static struct {
    unsigned long long queue_threshold;
    uint64_t time_threshold_ns;
    long long budget_bytes;

    unsigned long long serial; /* of the next prediction */
    struct request requests[QUEUE];
    unsigned first, length;
    unsigned disclosed; /* of them, from the first on, to the service; they stay until they have passed */
    unsigned batch; /* requests that are enough for one */
    uint64_t oldest_ns;

    struct used used[PREDICTIONS + QUEUE]; /* what counts against the budget, in order */
    unsigned first_used, used_count;
    long long used_bytes;
} queue LARGE;

/* ---- the budget ---- */

static void use(unsigned long long serial, long long bytes)
{
    if (queue.used_count < PREDICTIONS + QUEUE) {
        queue.used[(queue.first_used + queue.used_count++) % (PREDICTIONS + QUEUE)] = (struct used){serial, bytes};
        queue.used_bytes += bytes;
    }
}

static void give_back(unsigned long long passed)
{
    while (queue.used_count > 0 && queue.used[queue.first_used].serial < passed) {
        queue.used_bytes -= queue.used[queue.first_used].bytes;
        queue.first_used = (queue.first_used + 1) % (PREDICTIONS + QUEUE);
        queue.used_count--;
    }
}

/* ---- the rule ---- */

static bool may_serve(unsigned long long serial, long long bytes)
{
    unsigned long long passed = atomic_load(&shared->passed);
    give_back(passed);
    unsigned long long distance = serial > passed ? serial - passed : 0;
    if (distance == 0)
        return true; /* the program is waiting for it */
    uint64_t time_ns = atomic_load(&shared->compute_ns) * distance;
    uint64_t service_ns = atomic_load(&shared->service_ns) * (device.requests_under_way + 1);
    if (time_ns > service_ns && time_ns - service_ns > queue.time_threshold_ns)
        return false;
    return distance <= queue.queue_threshold &&
           (queue.used_bytes == 0 || queue.used_bytes + bytes <= queue.budget_bytes);
}

static int by_place(const void *left, const void *right)
{
    const struct request *a = left, *b = right;
    if (a->description->status.st_dev != b->description->status.st_dev)
        return a->description->status.st_dev < b->description->status.st_dev ? -1 : 1;
    long long at_a = place(a->description, a->begin), at_b = place(b->description, b->begin);
    return at_a < at_b ? -1 : at_a > at_b;
}

/* Serves sorted requests, those that touch each other, or nearly, as one. */
static void serve_batch(struct request *batch, unsigned length)
{
    unsigned asked = 0;
    long long gap = worthwhile_gap(), bytes = 0;
    qsort(batch, length, sizeof *batch, by_place);
    device.ranges += length;
    for (unsigned i = 0; i < length;) {
        long long begin = batch[i].begin, end = batch[i].end;
        struct description *description = batch[i].description;
        for (i++; i < length && batch[i].description == description && batch[i].begin >= begin &&
                    batch[i].begin <= end + gap; i++)
            end = batch[i].end > end ? batch[i].end : end;
        ask_for(description, begin, end);
        bytes += end - begin;
        asked++;
    }
    look_at_batches();
    struct description *last = batch[length - 1].description;
    long long page = batch[length - 1].begin;
    if (device.batch_count < BATCHES && page < last->size) {
        last->references++;
        device.batches[(device.first_batch + device.batch_count++) % BATCHES] =
            (struct batch){last, page, now_ns(), asked, bytes, length >= FIRST_BATCH};
        device.whole_count += length >= FIRST_BATCH;
        device.requests_under_way += asked;
    }
    for (unsigned i = 0; i < length; i++)
        release(batch[i].description);
}

/* A batch is no more than half of what may wait. */
static unsigned at_most_half(unsigned batch)
{
    unsigned half = (unsigned)(queue.queue_threshold + 1) / 2;
    return batch < half ? batch : half > 0 ? half : 1;
}

static struct request take_first(void)
{
    struct request request = queue.requests[queue.first];
    queue.first = (queue.first + 1) % QUEUE;
    queue.length--;
    return request;
}

/* Has the program made the access in the meantime? */
static bool has_expired(const struct request *request)
{
    const struct file *slot = request->description->slot;
    return atomic_load(key_of(slot)) != request->description->key || atomic_load(&slot->real) > request->number;
}

/* Tells the service of a request; false if that has to wait. */
static bool disclose(const struct request *request)
{
    struct description *description = request->description;
    if (request->serial > atomic_load(&shared->passed) + queue.queue_threshold)
        return false;
    if (S_ISREG(description->status.st_mode) && description->named == 0)
        description->named = name_to_service(description->descriptor, description->handle);
    if (!has_service())
        return false;
    if (S_ISREG(description->status.st_mode) && description->named == 0)
        return false;
    if (description->named != 0 && !is_refused(description->named))
        return write_to_service(description->named, request->begin, request->end - request->begin);
    ask_for(description, request->begin, request->end); /* nothing that a service steers */
    return true;
}

/* Serves by the service: it is told of everything, in the order of the predictions, and keeps the rules. */
static void serve_by_service(bool all)
{
    if (all || service.entries_until_look == 0)
        listen_to_service();
    if (has_service() && service.leaving > 0 && all)
        forget_files();
    while (queue.length > 0 && has_expired(&queue.requests[queue.first])) {
        struct request request = take_first();
        if (queue.disclosed > 0)
            queue.disclosed--;
        else
            count(&shared->skipped, 1);
        release(request.description);
    }
    while (has_service() && queue.disclosed < queue.length &&
           disclose(&queue.requests[(queue.first + queue.disclosed) % QUEUE])) {
        queue.disclosed++;
        service.entries_until_look -= service.entries_until_look > 0;
    }
    show_to_service();
    if (!has_service())
        queue.disclosed = 0; /* it is up to us again */
}

/* How long a request may wait for others that it can be sorted with. */
static uint64_t patience_ns(void)
{
    uint64_t one_by_one_ns = queue.length * positioning_ns();
    return one_by_one_ns > BATCH_NS ? one_by_one_ns : BATCH_NS;
}

/* Serves what the rule lets through; `all`: also what is not enough for a batch. */
static void serve(bool all)
{
    static struct request batch[QUEUE] LARGE;
    if (has_service())
        serve_by_service(all);
    if (has_service())
        return;
    while (queue.length > 0) {
        unsigned length = 0;
        if (!all && queue.length < queue.batch && now_ns() - queue.oldest_ns < patience_ns())
            return;
        if (has_enough())
            return;
        look_at_batches();
        while (queue.length > 0 && length < queue.batch) {
            const struct request *next = &queue.requests[queue.first];
            bool expired = has_expired(next);
            if (!expired && !may_serve(next->serial, next->end - next->begin))
                break;
            struct request request = take_first();
            if (expired) {
                count(&shared->skipped, 1);
                release(request.description);
            } else {
                use(request.serial, request.end - request.begin);
                batch[length++] = request;
            }
        }
        queue.oldest_ns = now_ns();
        if (length > 0)
            serve_batch(batch, length);
        if (length < queue.batch)
            return;
        queue.batch = at_most_half(device.kind == POSITIONS ? queue.batch * BATCH_GROWTH : FIRST_BATCH);
    }
}

/* Is there still a program to predict for? */
static bool program_runs(void)
{
    return running() && atomic_load(&shared->program_ended) == 0;
}

static void note_usage(void)
{
    struct timespec used_time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used_time);
    atomic_store(&shared->slice_cpu_ns, (uint64_t)used_time.tv_sec * 1000000000u + (uint64_t)used_time.tv_nsec);
    atomic_store(&shared->slice_sectors, sectors_read());
}

/* Ends the slice without further ado; slice_start.h. */
static void leave_slice(void) __attribute__((noreturn));

/* Ends the slice if the program has become another one; slice_start.h. */
static void leave_if_orphaned(void);

/* Sleeps until the program has passed `passed` predictions, but not longer than a nap. */
static void wait_for_program(unsigned long long passed, uint64_t *nap_ns)
{
    unsigned wake = atomic_load(&shared->wake);
    uint64_t longest_ns = has_enough() ? BUSY_NAP_NS : *nap_ns;
    note_usage();
    count(&shared->waits, 1);
    atomic_store(&shared->wake_at, passed);
    atomic_store(&shared->sleeping, 1);
    if (atomic_load(&shared->passed) < passed && program_runs())
        futex_wait(&shared->wake, wake, longest_ns);
    atomic_store(&shared->sleeping, 0);
    *nap_ns = *nap_ns * 2 < LONGEST_NAP_NS ? *nap_ns * 2 : LONGEST_NAP_NS;
    leave_if_orphaned();
}

/* The program's progress that makes it worth looking at the queue again. */
static unsigned long long worth_waking(void)
{
    unsigned long long step = queue.queue_threshold / 2;
    return atomic_load(&shared->passed) + (step > 0 ? step : 1);
}

static void enqueue(struct description *description, unsigned long long number, unsigned long long serial,
                    long long begin, long long end)
{
    uint64_t nap_ns = NAP_NS;
    while (queue.length == QUEUE && program_runs()) {
        serve(true);
        if (queue.length == QUEUE)
            wait_for_program(worth_waking(), &nap_ns);
    }
    if (!program_runs())
        return;
    if (queue.length == 0)
        queue.oldest_ns = now_ns();
    description->references++;
    queue.requests[(queue.first + queue.length++) % QUEUE] = (struct request){description, number, serial, begin, end};
    serve(false);
}

/* Serves everything before the slice ends. */
static void drain(void)
{
    uint64_t nap_ns = NAP_NS;
    while (queue.length > 0 && program_runs()) {
        serve(true);
        if (queue.length > 0)
            wait_for_program(worth_waking(), &nap_ns);
    }
}

static uint64_t number_from(const char *name, uint64_t otherwise, uint64_t most)
{
    const char *text = secure_getenv(name);
    char *end;
    if (text == NULL || *text < '0' || *text > '9')
        return otherwise;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    return *end != 0 || errno != 0 ? otherwise : number > most ? most : number;
}

static void queue_setup(void)
{
    queue.queue_threshold = number_from("FORETELL_SLICE_QUEUE", PREDICTIONS, PREDICTIONS);
    queue.batch = at_most_half(FIRST_BATCH);
    queue.time_threshold_ns = number_from("FORETELL_SLICE_TIME_MS", TIME_THRESHOLD_NS / 1000000, 3600000) * 1000000;
    queue.budget_bytes = (long long)number_from("FORETELL_SLICE_BUDGET_MIB", BUDGET_BYTES >> 20, 1 << 20) << 20;
}
