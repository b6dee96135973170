/* The other sink: what is predicted is disclosed to the service (foretelld) on behalf of the program, and the
 * service decides what is fetched when, with what everybody else on the machine wants in view (LRU-SP,
 * forestall). This is a client of its own, some ring and some frames (docs/protocol.md), as the runtime has no
 * dependency beyond libc.
 *
 * Disclosures count for the process that sends them, and the service takes from the kernel who that is: whoever
 * called connect(2) (SO_PEERCRED). So the program connects, a moment before its slice is forked, and keeps
 * nothing of the connection; all that is said on it the slice says. That has three advantages over a reader in
 * the program: the program does no work and has no thread that it did not have; files are named by the slice's
 * own descriptors, long before the program opens them; and when the slice ends, for whatever reason, so do the
 * connection and all that was disclosed. The slice's own reads are nobody's: it was started before the service
 * had heard of the program.
 *
 * As a thread the slice could not be told from the program, and its reads would be taken for those that are
 * disclosed. It prefetches by itself then.
 *
 * Nothing here waits. What finds no room in the ring or the socket is said later, or has passed by then. When
 * the service goes away, what it was told and the program has not read yet is prefetched by the slice itself
 * (slice_queue.h). */

#define SERVICE_SOCKET "/run/foretell/foretelld.sock"
/* Entries of the ring: a power of two, and one for each request that can wait. */
#define SERVICE_ENTRIES 4096
#define SERVICE_HEADER_BYTES 4096
#define SERVICE_ENTRY_WORDS 4
/* Files named at a time: as many as a service takes of one connection unless it is set up otherwise. */
#define SERVICE_FILES 4096
/* Messages saved up in a pause at most, and added each second: below what a service takes. */
#define SERVICE_SAVED 8192
#define SERVICE_MESSAGES_A_SECOND 3072
/* Longest reply that is expected: an error and its line of text. */
#define SERVICE_REPLY_BYTES 2048
/* Entries between two looks at the socket while the slice does not wait. */
#define SERVICE_LOOK 256

/* As VERSION in crates/protocol: a service that speaks another one refuses the slice. */
enum { SERVICE_VERSION = 2 };

enum { SERVICE_HELLO = 1, SERVICE_FILE = 2, SERVICE_FORGET = 3, SERVICE_WAKE = 4 };
enum { SERVICE_WELCOME = 0x8001, SERVICE_ERROR = 0x8002, SERVICE_ENDED = 0x8008 };
enum { SERVICE_DISCLOSE = 4 }; /* an entry's operation */

/* Words of the ring's header; the last is one of the statistics. */
enum { SERVICE_TAIL = 0, SERVICE_HEAD = 8, SERVICE_SLEEPS = 16, SERVICE_PREFETCHES = 41 };

struct named_file {
    bool named, refused;
    bool leaving;               /* to be forgotten when its last entry has been read */
    unsigned long long position; /* behind its last entry */
};

static int service_socket = -1; /* there is none */

static struct {
    atomic_ullong *ring;
    unsigned long long tail;
    struct named_file files[SERVICE_FILES]; /* by handle - 1 */
    unsigned next, leaving;
    unsigned long long messages_left;
    uint64_t filled_ns;
    unsigned entries_until_look;
    unsigned char heard[SERVICE_REPLY_BYTES];
    size_t heard_bytes;
} service LARGE;

static bool has_service(void)
{
    return service_socket >= 0;
}

/* The connection is over; what was named and disclosed goes with it. */
static void leave_service(void)
{
    if (service.ring != NULL)
        munmap((void *)service.ring, SERVICE_HEADER_BYTES + SERVICE_ENTRIES * SERVICE_ENTRY_WORDS * 8);
    service.ring = NULL;
    close(service_socket);
    service_socket = -1;
    atomic_store(&shared->service_lost, 1);
}

/* Program: connects, unless that would mean to wait or FORETELL_SLICE_SINK asks for "readahead". */
static void connect_to_service(void)
{
    const char *sink = secure_getenv("FORETELL_SLICE_SINK"), *path = secure_getenv("FORETELL_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || *path == 0)
        path = SERVICE_SOCKET;
    if ((sink != NULL && strcmp(sink, "readahead") == 0) || strlen(path) >= sizeof address.sun_path)
        return;
    strcpy(address.sun_path, path);
    int fd = out_of_the_way(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    service_socket = fd;
    atomic_store(&shared->service, fd >= 0);
}

/* Program: the connection is the slice's. */
static void hand_over_service(void)
{
    if (has_service())
        close(service_socket);
    service_socket = -1;
}

static void put_word(unsigned char *to, unsigned long word)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(word >> 8 * i);
}

static unsigned long word_at(const unsigned char *from)
{
    return from[0] | (unsigned long)from[1] << 8 | (unsigned long)from[2] << 16 | (unsigned long)from[3] << 24;
}

/* A frame of at most two words, with a descriptor or -1. False if the socket takes nothing at present. */
static bool send_to_service(unsigned kind, const unsigned long *words, unsigned length, int descriptor)
{
    unsigned char frame[16];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {frame, 8 + 4 * length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    put_word(frame, 4 * length);
    put_word(frame + 4, kind);
    for (unsigned i = 0; i < length; i++)
        put_word(frame + 8 + 4 * i, words[i]);
    if (descriptor >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = sizeof control.space;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    }
    ssize_t sent = sendmsg(service_socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == (ssize_t)part.iov_len)
        return true;
    if (sent >= 0 || (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ETOOMANYREFS))
        leave_service(); /* half a frame, or nobody there */
    return false;
}

/* Slice: makes the ring and greets. The answer is not waited for: all is valid from the greeting on. */
static void greet_service(void)
{
    size_t bytes = SERVICE_HEADER_BYTES + SERVICE_ENTRIES * SERVICE_ENTRY_WORDS * 8;
    static const unsigned long hello[2] = {SERVICE_VERSION, SERVICE_ENTRIES};
    if (!has_service())
        return;
    int memory = memfd_create("foretell-slice", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *ring = MAP_FAILED;
    if (memory >= 0 && ftruncate(memory, (off_t)bytes) == 0 &&
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    service.ring = ring == MAP_FAILED ? NULL : ring;
    service.messages_left = SERVICE_SAVED;
    service.filled_ns = now_ns();
    if ((service.ring == NULL || !send_to_service(SERVICE_HELLO, hello, 2, memory)) && has_service())
        leave_service();
    if (memory >= 0)
        close(memory);
}

static void hear_reply(unsigned kind, const unsigned char *body, size_t bytes)
{
    if (kind == SERVICE_ENDED) {
        leave_service();
    } else if (kind == SERVICE_ERROR && bytes >= 8) {
        unsigned long handle = word_at(body + 4);
        if (handle > 0 && handle <= SERVICE_FILES) {
            service.files[handle - 1].refused = true;
            count(&shared->refused_files, 1);
        }
    }
}

/* Hears what the service has said, and finds out whether it is still there. */
static void listen_to_service(void)
{
    service.entries_until_look = SERVICE_LOOK;
    while (has_service()) {
        ssize_t got = recv(service_socket, service.heard + service.heard_bytes,
                           sizeof service.heard - service.heard_bytes, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            leave_service();
            return;
        }
        service.heard_bytes += (size_t)got;
        size_t at = 0;
        while (has_service() && service.heard_bytes - at >= 8) {
            const unsigned char *frame = service.heard + at;
            size_t bytes = word_at(frame);
            if (bytes > sizeof service.heard - 8)
                leave_service(); /* nothing that we asked for */
            else if (service.heard_bytes - at < 8 + bytes)
                break;
            else
                hear_reply(frame[4] | (unsigned)frame[5] << 8, frame + 8, bytes);
            at += 8 + bytes;
        }
        if (has_service()) {
            memmove(service.heard, service.heard + at, service.heard_bytes - at);
            service.heard_bytes -= at;
        }
    }
}

/* May another message be sent? */
static bool take_allowance(void)
{
    uint64_t now = now_ns(), more = (now - service.filled_ns) / 1000 * SERVICE_MESSAGES_A_SECOND / 1000000;
    if (more > 0) {
        service.messages_left += more;
        if (service.messages_left > SERVICE_SAVED)
            service.messages_left = SERVICE_SAVED;
        service.filled_ns = now;
    }
    if (service.messages_left == 0)
        return false;
    service.messages_left--;
    return true;
}

static unsigned long long entries_read(void)
{
    return atomic_load_explicit(&service.ring[SERVICE_HEAD], memory_order_acquire);
}

/* Forgets what was left and is in no entry any more: files are read before entries. */
static void forget_files(void)
{
    for (unsigned i = 0; i < SERVICE_FILES && service.leaving > 0 && has_service(); i++) {
        struct named_file *file = &service.files[i];
        unsigned long handle = i + 1;
        if (!file->leaving || file->position > entries_read())
            continue;
        if (!take_allowance() || !send_to_service(SERVICE_FORGET, &handle, 1, -1))
            return;
        *file = (struct named_file){0};
        service.leaving--;
    }
}

/* Names a file to the service, by a descriptor of ours. `number`: what the program will call it, as far as one
 * can know. Returns its handle, or 0 if that is not possible at present. */
static unsigned name_to_service(int descriptor, int number)
{
    for (unsigned tried = 0; tried < SERVICE_FILES; tried++) {
        unsigned handle = service.next++ % SERVICE_FILES + 1;
        const unsigned long words[2] = {handle, (unsigned)number};
        if (service.files[handle - 1].named)
            continue;
        if (!take_allowance() || !send_to_service(SERVICE_FILE, words, 2, descriptor))
            return 0;
        service.files[handle - 1] = (struct named_file){.named = true};
        return handle;
    }
    return 0;
}

/* We are through with a file. */
static void leave_file(unsigned handle)
{
    if (handle != 0 && has_service()) {
        service.files[handle - 1].leaving = true;
        service.leaving++;
    }
}

/* Does the service take this file? */
static bool is_refused(unsigned handle)
{
    return service.files[handle - 1].refused;
}

/* Writes an entry, seen by the service after show_to_service(). False if there is no room. */
static bool write_to_service(unsigned handle, long long begin, long long bytes)
{
    if (service.tail - entries_read() >= SERVICE_ENTRIES)
        return false;
    atomic_ullong *entry =
        service.ring + SERVICE_HEADER_BYTES / 8 + service.tail % SERVICE_ENTRIES * SERVICE_ENTRY_WORDS;
    const unsigned long long words[SERVICE_ENTRY_WORDS] = {SERVICE_DISCLOSE, handle, (unsigned long long)begin,
                                                           (unsigned long long)bytes};
    for (int i = 0; i < SERVICE_ENTRY_WORDS; i++)
        atomic_store_explicit(&entry[i], words[i], memory_order_relaxed);
    service.files[handle - 1].position = ++service.tail;
    count(&shared->disclosed, 1);
    return true;
}

/* Shows the service what was written, and wakes it if it sleeps. */
static void show_to_service(void)
{
    unsigned long long sleeps = 1;
    if (!has_service())
        return;
    atomic_store(&service.ring[SERVICE_TAIL], service.tail);
    if (atomic_load(&service.ring[SERVICE_SLEEPS]) == 1 &&
        atomic_compare_exchange_strong(&service.ring[SERVICE_SLEEPS], &sleeps, 0) &&
        !(take_allowance() && send_to_service(SERVICE_WAKE, NULL, 0, -1)) && has_service())
        atomic_store(&service.ring[SERVICE_SLEEPS], 1); /* with the next entry, then */
}

/* Blocks that the service has prefetched for the program, as it last said. */
static unsigned long long prefetched_by_service(void)
{
    return has_service() ? atomic_load_explicit(&service.ring[SERVICE_PREFETCHES], memory_order_relaxed) : 0;
}
