/* Is the slice worth what it costs? Looked at each time the program has made WINDOW accesses, by two measures:
 *
 *   lead      how much earlier than the program the slice came to an access, summed up; nothing if it was later.
 *             The most that the program can have gained
 *   brought   bytes that came from the device through the slice (getrusage(2): ru_inblock), or that the service
 *             has prefetched for the program
 *
 * A slice whose lead was less than a fiftieth of the time that went by, and whose prefetches brought nothing, is
 * as slow as the program: it ends for good ("behind"). One that leads, but has brought nothing in IDLE_WINDOWS
 * windows, predicts what is in memory anyway. It dozes, and the program's calls do next to nothing but count;
 * one in SAMPLED is timed, and when one of those takes SLOW_NS, the program has left what is in memory: the slice
 * wakes and catches up. So a program that has nothing to gain pays for its first thousand accesses.
 *
 * With a trace neither is done, so that all predictions are made. On a kernel that does not account for input and
 * output neither is done either. */

#define WINDOW 256
#define IDLE_WINDOWS 4
#define SMALLEST_LEAD 50 /* one part in */

static struct {
    unsigned long long accesses, lead_ns, brought, prefetched;
    unsigned long long left_behind; /* predictions of files that the program has closed already */
    uint64_t since_ns;
    unsigned idle_windows;
    bool known, possible;
} worth;

static void doze(void)
{
    uint64_t nap_ns = NAP_NS;
    count(&shared->dozes, 1);
    atomic_store(&shared->dozing, 1);
    while (atomic_load(&shared->dozing) != 0 && program_runs())
        wait_for_program(ULLONG_MAX, &nap_ns);
    worth.known = false;
}

/* After each prediction. */
static void weigh(void)
{
    unsigned long long accesses = atomic_load(&shared->passed) + worth.left_behind;
    if (worth.known && (accesses - worth.accesses < WINDOW || !worth.possible))
        return;
    uint64_t now = now_ns();
    unsigned long long lead_ns = atomic_load(&shared->lead_ns), brought = sectors_read(), prefetched;
    prefetched = prefetched_by_service() + queue.sectors_prefetched;
    brought += prefetched_by_service();
    if (!worth.known) {
        worth.known = true;
        worth.possible = trace_descriptor < 0 && access("/proc/self/io", F_OK) == 0;
        worth.idle_windows = 0;
    } else {
        if ((lead_ns - worth.lead_ns) * SMALLEST_LEAD < now - worth.since_ns && prefetched == worth.prefetched) {
            stop(BEHIND);
            leave_slice();
        }
        worth.idle_windows = brought == worth.brought ? worth.idle_windows + 1 : 0;
    }
    worth.accesses = accesses;
    worth.lead_ns = lead_ns;
    worth.brought = brought;
    worth.prefetched = prefetched;
    worth.since_ns = now;
    if (worth.idle_windows >= IDLE_WINDOWS)
        doze();
}
