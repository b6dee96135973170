/* FORETELL_SLICE_TRACE: a line for each access, fields separated by tabs:
 *
 *   P or R (predicted, real), number of the access in its open file, path as the program gave it, offset, bytes
 *
 * Each line is one write(2) in append mode, so lines never mix. Without its first field, the P lines are the
 * R lines if the slice is right. In a path, control characters and backslashes are written as \ooo. */

static int trace_descriptor = -1;

/* A file, whatever number it has. */
struct which_file {
    dev_t device;
    ino_t inode;
};

static struct which_file trace_file;

static struct which_file which_file(int fd)
{
    struct stat status = {0};
    return fd >= 0 && fstat(fd, &status) == 0 ? (struct which_file){status.st_dev, status.st_ino}
                                              : (struct which_file){0, 0};
}

/* Is it still ours? The program may have closed a descriptor of ours and opened a file of its own there. */
static bool is_same_file(int fd, const struct which_file *file)
{
    struct which_file now = which_file(fd);
    return now.inode != 0 && now.inode == file->inode && now.device == file->device;
}

/* A descriptor of our own where the program does not meet it. */
static int out_of_the_way(int fd)
{
    if (fd < 0)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (high < 0)
        high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
    if (high < 0)
        high = fcntl(fd, F_DUPFD_CLOEXEC, 64); /* a low limit on descriptors */
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static void trace_open(void)
{
    const char *path = secure_getenv("FORETELL_SLICE_TRACE");
    if (path == NULL || *path == 0)
        return;
    trace_descriptor = out_of_the_way(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    trace_file = which_file(trace_descriptor);
}

/* A copy of the path for the trace, NULL if nobody asked for one. */
static char *trace_path(const char *path)
{
    if (trace_descriptor < 0)
        return NULL;
    char *copy = malloc(4 * strlen(path) + 1), *to = copy;
    for (const char *from = path; copy != NULL && *from != 0; from++) {
        unsigned char byte = (unsigned char)*from;
        if (byte < ' ' || byte == '\\' || byte == 127)
            to += sprintf(to, "\\%03o", byte);
        else
            *to++ = (char)byte;
    }
    if (copy != NULL)
        *to = 0;
    return copy;
}

static void trace(char side, unsigned long long number, const char *path, long long offset, long long bytes)
{
    if (trace_descriptor < 0 || path == NULL)
        return;
    char line[4 * PATH_MAX + 100];
    int length = snprintf(line, sizeof line, "%c\t%llu\t%s\t%lld\t%lld\n", side, number, path, offset, bytes);
    if (!is_same_file(trace_descriptor, &trace_file))
        return;
    ssize_t written = write(trace_descriptor, line, (size_t)length);
    (void)written; /* a full disk must not become the program's trouble */
}
