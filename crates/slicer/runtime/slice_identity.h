/* Who the program is and what it may do, as the kernel tells it: the slice must open nothing that the program could
 * not. Translated calls that change this (setuid(2), chroot(2) and their like) end the slice on both sides, in the
 * slice where its own course comes to them. This is for changes that no translated source shows, made by a library:
 * the slice compares what /proc says of the program now and then, and ends when it is no longer what it was. */

/* How long an answer is believed: /proc/PID/status takes some 30 us to make. */
#define IDENTITY_NS 10000000ull
#define IDENTITY_BYTES 1024

static struct {
    char status[40], root[40];
    char then[IDENTITY_BYTES];
    uint64_t looked_ns;
} identity LARGE;

/* Appends the lines of /proc/PID/status that say who the process is, and its root folder. Empty if they cannot be
 * read, as where /proc is not mounted. */
static void read_identity(char text[IDENTITY_BYTES])
{
    static const char *const wanted[] = {"Uid:",    "Gid:",    "Groups:", "CapInh:",     "CapPrm:",
                                         "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:"};
    char status[4096], root[256];
    size_t length = 0;
    text[0] = 0;
    int fd = open(identity.status, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, status, sizeof status - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return;
    status[got] = 0;
    for (char *rest = NULL, *line = strtok_r(status, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0 && length + strlen(line) + 2 < IDENTITY_BYTES)
                length += (size_t)sprintf(text + length, "%s\n", line);
    ssize_t root_bytes = readlink(identity.root, root, sizeof root);
    if (root_bytes > 0 && length + (size_t)root_bytes + 1 < IDENTITY_BYTES) {
        memcpy(text + length, root, (size_t)root_bytes);
        text[length + (size_t)root_bytes] = 0;
    }
}

static void remember_program(pid_t program)
{
    snprintf(identity.status, sizeof identity.status, "/proc/%d/status", (int)program);
    snprintf(identity.root, sizeof identity.root, "/proc/%d/root", (int)program);
    read_identity(identity.then);
    identity.looked_ns = now_ns();
}

static bool program_has_changed(void)
{
    char now[IDENTITY_BYTES];
    if (identity.then[0] == 0 || now_ns() - identity.looked_ns < IDENTITY_NS)
        return false;
    identity.looked_ns = now_ns();
    read_identity(now);
    return strcmp(now, identity.then) != 0;
}
