/* Is the slice worth what it costs?
 *
 * What it costs is its processor time, which where there are few processors the program lacks. It may spend what it
 * earns, less half:
 *
 *   the time that one request takes, for each range that it brought from the device and that follows no other, as the
 *   kernel would not have read it ahead; and its own waits for such ranges
 *   what the program has waited for jumps (slice_early.h), which it may come to spare it
 *
 * and little of what the kernel does as well: EARNED_PER_SECTOR_NS for ranges in order, and one in ONWARDS_EARNED of the
 * time that the program waits in those. When it has spent all, it dozes until the program waits again. So in a program
 * that computes, and reads a file in order, it ends up doing nothing, after GRANTED_NS at most. Whether it has is looked
 * at before predictions, and by a timer where it computes for long.
 *
 * Whether it is in time, three measures tell:
 *
 *   lead      how much earlier than the program the slice came to an access, summed up; nothing if it was later.
 *             The most that the program can have gained
 *   brought   sectors that came from the device through the slice (getrusage(2): ru_inblock), or blocks that the
 *             service has prefetched for the program
 *
 *   waited    time of the program's accesses that took longer than any copy out of memory
 *
 * A slice whose lead was less than a fiftieth of the time in which the program made WINDOW accesses, and whose
 * prefetches brought nothing in it, is behind. If the program has waited for a fiftieth of that time or more, the
 * slice is of no use: it ends for good ("behind"). Otherwise what is read is in memory; and so it is when the
 * slice has asked for IDLE ranges in a row, or read them itself, and brought nothing.
 *
 * Then it dozes, and the program's calls do next to nothing but count; one in SAMPLED is timed, and when one of
 * those takes SLOW_NS, the program has left what is in memory: the slice wakes and catches up. It is not judged
 * before it could do so: half of the time that it has slept, so that one that is not much quicker than the program
 * is found out then. So a program that has nothing to gain pays for the first few hundred accesses.
 *
 * With a trace neither is done, so that all predictions are made. On a kernel that does not account for input and
 * output neither is done either. */

#define WINDOW 256
#define SMALL_PART 50 /* one in */
#define IDLE 512

static struct {
    unsigned long long accesses, lead_ns, waited_ns, prefetched; /* when the window began */
    uint64_t since_ns;
    uint64_t catching_up_until_ns;
    unsigned long long left_behind; /* predictions of files that the program has closed already */
    unsigned long long attempts, brought; /* when something was brought last */
    uint64_t looked_ns; /* at what it costs */
    bool known, possible;
} worth;

static void begin_window(unsigned long long accesses)
{
    worth.accesses = accesses;
    worth.lead_ns = atomic_load(&shared->lead_ns);
    worth.waited_ns = atomic_load(&shared->waited_ns);
    worth.prefetched = prefetched_by_service() + device.sectors_prefetched;
    worth.since_ns = now_ns();
}

static unsigned long long accesses_passed(void)
{
    return atomic_load(&shared->passed) + worth.left_behind;
}

/* What the slice may spend before it has earned anything; for others the time between two looks. */
#define GRANTED_NS 2000000ull
#define EARNED_PER_SECTOR_NS 64ull
#define ONWARDS_EARNED 16
#define LOOK_AT_COSTS_NS 200000ull
#define LOOK_AT_COSTS_US 2000

static uint64_t spent_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static uint64_t earned_ns(void)
{
    unsigned long long jumps = atomic_load(&shared->jumps);
    uint64_t jumped_ns = atomic_load(&shared->jumped_ns), service_ns = atomic_load(&shared->service_ns);
    uint64_t each_ns = service_ns != 0 ? service_ns : jumps != 0 ? jumped_ns / jumps : device.wait_ns;
    uint64_t onwards_ns = atomic_load(&shared->waited_ns) - jumped_ns;
    return ((device.jumps + prefetched_by_service()) * each_ns + device.spared_ns + jumped_ns) / 2 +
           device.onwards * EARNED_PER_SECTOR_NS + onwards_ns / ONWARDS_EARNED;
}

static void doze(void)
{
    uint64_t nap_ns = NAP_NS, begun_ns = now_ns();
    count(&shared->dozes, 1);
    atomic_store(&shared->dozing, 1);
    while (atomic_load(&shared->dozing) != 0 && program_runs())
        wait_for_program(ULLONG_MAX, &nap_ns);
    worth.catching_up_until_ns = now_ns() + (now_ns() - begun_ns) / 2;
    begin_window(accesses_passed());
}

/* Ranges that were asked for or read so far. What the service makes of them is known when the program is there. */
static unsigned long long attempts(void)
{
    return has_service() ? atomic_load(&shared->passed) : device.ranges + atomic_load(&shared->fetches);
}

static bool is_behind(void)
{
    return prefetched_by_service() + device.sectors_prefetched == worth.prefetched &&
           (atomic_load(&shared->lead_ns) - worth.lead_ns) * SMALL_PART < now_ns() - worth.since_ns;
}

static bool has_waited(void)
{
    return (atomic_load(&shared->waited_ns) - worth.waited_ns) * SMALL_PART >= now_ns() - worth.since_ns;
}

/* Dozes for as long as more has been spent than earned. */
static void economize(void)
{
    worth.looked_ns = now_ns();
    while (worth.possible && program_runs() && spent_ns() > GRANTED_NS + earned_ns()) {
        serve(true);
        doze();
    }
}

/* The slice has computed for LOOK_AT_COSTS_US. Not while it holds what the program waits for. */
static void look_at_costs(int number)
{
    int saved = errno;
    (void)number;
    if (worth.possible && program_runs() && atomic_load(&shared->lock) == 0 && spent_ns() > GRANTED_NS + earned_ns())
        doze();
    errno = saved;
}

/* Before each prediction. */
static void weigh(void)
{
    unsigned long long accesses = accesses_passed(), tried = attempts();
    if (worth.possible && now_ns() - worth.looked_ns >= LOOK_AT_COSTS_NS)
        economize();
    if (!worth.known) {
        worth.known = true;
        begin_window(accesses);
        worth.attempts = tried;
        worth.brought = sectors_read() + prefetched_by_service();
    }
    if (worth.possible && accesses - worth.accesses >= WINDOW) {
        bool behind = is_behind() && now_ns() >= worth.catching_up_until_ns;
        if (behind && has_waited()) {
            stop(BEHIND);
            leave_slice();
        }
        if (behind)
            doze();
        begin_window(accesses_passed());
    }
    if (worth.possible && tried - worth.attempts >= IDLE) {
        unsigned long long brought = sectors_read() + prefetched_by_service();
        if (brought == worth.brought)
            doze();
        worth.attempts = attempts();
        worth.brought = brought;
    }
}
