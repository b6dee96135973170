/* Standard input, as far as it can be known before the program reads it.
 *
 * What the program reads there it hands over, call by call. Besides, each time that its stream has taken new bytes in, it
 * shows what is left in the buffer. From that the slice makes the same calls itself, ahead of the program; where standard
 * input is a file it goes on behind the buffer by reads that move nobody's offset. Nothing is consumed that the program
 * would read. What the slice has found out by itself arrives later all the same, and is passed over.
 *
 * This is only where all reads of standard input are in the slice, and are of the kinds below (src/emit/input.rs). */

/* ---- the program's side ---- */

#ifdef FORETELL_OPEN_STREAMS
static struct {
    unsigned long long calls;
    const char *at, *end; /* of the buffer, when it was looked at last */
    bool shown;
} input;

/* Where the first byte of the buffer lies in its file; NOWHERE if it is none that can be read from anywhere. */
static long long input_offset(FILE *stream)
{
    struct stat status;
    int fd = stream->_fileno;
    long long offset = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? lseek(fd, 0, SEEK_CUR) : NOWHERE;
    return offset >= 0 ? offset - (stream->_IO_read_end - stream->_IO_read_ptr) : NOWHERE;
}

/* Whoever holds the lock copies some kilobytes. The program does not wait for it. */
static void show_buffer(FILE *stream)
{
    size_t left = (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
    if (atomic_exchange(&shared->input_lock, 1) != 0)
        return;
    input.shown = true;
    shared->input_calls = input.calls;
    shared->input_offset = input_offset(stream);
    shared->input_descriptor = stream->_fileno;
    shared->input_bytes = left < INPUT_BYTES ? left : INPUT_BYTES;
    memcpy(shared->input, stream->_IO_read_ptr, shared->input_bytes);
    atomic_store(&shared->input_lock, 0);
    wake_slice();
}
#endif

void foretell_show_input(FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    int saved = errno;
    input.calls++;
    if (stream == NULL && (library.in != NULL || find_library()))
        stream = *library.in;
    if (shared == NULL || stream == NULL || !counting())
        return;
    bool stays = input.shown && stream->_IO_read_end == input.end && stream->_IO_read_ptr >= input.at;
    input.at = stream->_IO_read_ptr;
    input.end = stream->_IO_read_end;
    if (!stays) {
        input.shown = false;
        show_buffer(stream);
    }
    errno = saved;
#else
    (void)stream;
#endif
}

/* ---- the slice's side ---- */

/* Messages that the slice has found out by itself and has not seen yet; beyond, it waits. */
#define EXPECTED 4096
/* Longest line that is looked for. */
#define LONGEST_LINE (1u << 20)

static struct {
    unsigned long long calls; /* that the slice has come to */
    bool known;               /* what comes next is what lies in `bytes` */
    unsigned char *bytes;
    size_t at, end, room;
    int file; /* where there is more, from `offset` on; -1: nowhere */
    long long offset;
    unsigned expected[EXPECTED], first, count;
} ahead = {.file = -1};

/* Takes what the program shows, if that is what comes next. */
static void adopt_input(void)
{
    if (ahead.known || ahead.count > 0)
        return;
    while (atomic_exchange(&shared->input_lock, 1) != 0) {
        if (!program_runs())
            leave_slice();
        sched_yield();
    }
    if (shared->input_calls == ahead.calls && ahead.calls > 0) {
        if (ahead.room < INPUT_BYTES) {
            free(ahead.bytes);
            ahead.bytes = malloc(ahead.room = INPUT_BYTES);
        }
        if (ahead.bytes == NULL)
            foretell_slice_give_up();
        memcpy(ahead.bytes, shared->input, shared->input_bytes);
        ahead.at = 0;
        ahead.end = shared->input_bytes;
        ahead.known = true;
        ahead.offset = shared->input_offset;
        if (ahead.offset != NOWHERE && ahead.file < 0) {
            char path[64];
            struct stat status;
            snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)early.program, shared->input_descriptor);
            int fd = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
            ahead.file = fd >= 0 && shares_descriptors ? out_of_the_way(fd) : fd;
        }
        ahead.offset += (long long)ahead.end;
    }
    atomic_store(&shared->input_lock, 0);
}

/* More bytes of the file; false at its end. */
static bool more_input(void)
{
    if (ahead.file < 0 || ahead.end - ahead.at >= LONGEST_LINE)
        return false;
    memmove(ahead.bytes, ahead.bytes + ahead.at, ahead.end - ahead.at);
    ahead.end -= ahead.at;
    ahead.at = 0;
    if (ahead.room - ahead.end < INPUT_BYTES) {
        unsigned char *larger = realloc(ahead.bytes, ahead.room = 2 * ahead.room);
        if (larger == NULL)
            foretell_slice_give_up();
        ahead.bytes = larger;
    }
    ssize_t got = pread(ahead.file, ahead.bytes + ahead.end, INPUT_BYTES, ahead.offset);
    if (got <= 0)
        return false;
    ahead.end += (size_t)got;
    ahead.offset += got;
    return true;
}

/* How many of the next bytes make a line of at most `most`, or are so many; 0 if that cannot be told yet. */
static size_t line_ahead(int delimiter, size_t most)
{
    size_t looked_at = 0;
    while (ahead.known) {
        size_t there = ahead.end - ahead.at < most ? ahead.end - ahead.at : most;
        const unsigned char *from = ahead.bytes + ahead.at;
        const unsigned char *end =
            there > looked_at ? memchr(from + looked_at, delimiter, there - looked_at) : NULL;
        if (end != NULL || there == most)
            return end != NULL ? (size_t)(end - from) + 1 : most;
        looked_at = there;
        if (!more_input())
            ahead.known = false;
    }
    return 0;
}

/* The next bytes, all of them; false if they cannot be told yet. */
static bool bytes_ahead(size_t bytes)
{
    while (ahead.known && ahead.end - ahead.at < bytes)
        ahead.known = more_input();
    return ahead.known;
}

/* Passes over messages that say what the slice knows. */
static void pass_over(bool waits)
{
    while (ahead.count > 0) {
        unsigned long long received = atomic_load(&shared->channel_received);
        struct message message;
        if (!waits && atomic_load(&shared->channel_sent) <= received)
            return;
        wait_for_word(&shared->channel_sent, received + 1);
        copy_out(&message, received, sizeof message);
        if (message.channel == CHANNEL_OF_THE_END)
            foretell_slice_end();
        if (message.channel != ahead.expected[ahead.first])
            foretell_slice_give_up();
        ahead.first = (ahead.first + 1) % EXPECTED;
        ahead.count--;
        atomic_store(&shared->channel_received, received + room_of(message.bytes));
    }
}

/* The slice has found out what so many messages will say. */
static void expect(unsigned channel, unsigned messages)
{
    if (ahead.count + messages > EXPECTED)
        pass_over(true);
    while (messages-- > 0)
        ahead.expected[(ahead.first + ahead.count++) % EXPECTED] = channel;
}

/* The slice comes to a call on standard input. */
static void begin_input(void)
{
    leave_if_over();
    pass_over(false);
    if (!ahead.known && ahead.calls > 0) {
        pass_over(true);
        adopt_input();
    }
}

/* What comes next is not known: the program has to come to the call. What it has shown before that is what it read there. */
static void wait_for_input(void)
{
    pass_over(true);
    wait_for_word(&shared->channel_sent, atomic_load(&shared->channel_received) + 1);
    adopt_input();
}

static size_t take_ahead(void *to, size_t bytes)
{
    memcpy(to, ahead.bytes + ahead.at, bytes);
    ahead.at += bytes;
    return bytes;
}

int foretell_told_getc(unsigned channel)
{
    int value;
    begin_input();
    if (!bytes_ahead(1))
        wait_for_input();
    ahead.calls++;
    if (bytes_ahead(1)) {
        expect(channel, 1);
        return ahead.bytes[ahead.at++];
    }
    foretell_receive(channel, &value, sizeof value);
    return value;
}

char *foretell_told_fgets(unsigned channel, char *line, int room)
{
    char *value;
    size_t most = room > 1 ? (size_t)room - 1 : 0, bytes;
    begin_input();
    if (most > 0 && line_ahead('\n', most) == 0)
        wait_for_input();
    ahead.calls++;
    if (most > 0 && (bytes = line_ahead('\n', most)) > 0) {
        expect(channel, 2);
        line[take_ahead(line, bytes)] = 0;
        return line;
    }
    ahead.known = false;
    foretell_receive(channel, &value, sizeof value);
    foretell_receive(channel, line, (size_t)room);
    return value != NULL ? line : NULL;
}

ssize_t foretell_told_getdelim(unsigned channel, char **line, size_t *room, int delimiter)
{
    ssize_t value;
    size_t bytes;
    begin_input();
    if (line_ahead(delimiter, LONGEST_LINE) == 0)
        wait_for_input();
    ahead.calls++;
    bool known = (bytes = line_ahead(delimiter, LONGEST_LINE)) > 0 && bytes < LONGEST_LINE;
    if (!known) {
        ahead.known = false;
        foretell_receive(channel, &value, sizeof value);
        if (value < 0)
            return value;
        bytes = (size_t)value;
    }
    if (*line == NULL || *room < bytes + 1)
        *line = realloc(*line, *room = bytes + 1);
    if (*line == NULL)
        foretell_slice_give_up();
    if (known) {
        expect(channel, 2);
        (*line)[take_ahead(*line, bytes)] = 0;
    } else {
        foretell_receive(channel, *line, bytes + 1);
    }
    return (ssize_t)bytes;
}

size_t foretell_told_fread(unsigned channel, void *buffer, size_t size, size_t count_of_items)
{
    size_t value, bytes;
    if (__builtin_mul_overflow(size, count_of_items, &bytes))
        foretell_slice_give_up();
    begin_input();
    if (!bytes_ahead(bytes))
        wait_for_input();
    ahead.calls++;
    if (bytes_ahead(bytes)) {
        expect(channel, 2);
        take_ahead(buffer, bytes);
        return count_of_items;
    }
    foretell_receive(channel, &value, sizeof value);
    foretell_receive(channel, buffer, bytes);
    return value;
}
