/* The slice's streams: a FILE * of the slice is one of its descriptions in disguise, and is never read by
 * the C library. */

static FILE *stream_of(int handle)
{
    return handle < 0 ? NULL : (FILE *)(void *)handles[handle];
}

FILE *foretell_slice_fopen(unsigned site, const char *path, const char *mode)
{
    return stream_of(open_file(site, AT_FDCWD, path, flags_of_mode(mode)));
}

/* Would fopen(3) open it, as far as can be told without doing it? */
static bool may_open(const char *path, const char *mode)
{
    int flags = flags_of_mode(mode);
    int access = (flags & O_ACCMODE) == O_RDONLY ? R_OK : (flags & O_ACCMODE) == O_WRONLY ? W_OK : R_OK | W_OK;
    return faccessat(AT_FDCWD, path, access, AT_EACCESS) == 0 || (errno == ENOENT && (flags & O_CREAT) != 0);
}

FILE *foretell_slice_freopen(const char *path, const char *mode, FILE *stream)
{
    if (path == NULL)
        foretell_slice_give_up();
    /* A standard stream: what is read from it the program hands over. */
    if (!is_ours(stream))
        return may_open(path, mode) ? stream : NULL;
    /* The first file of a stream stays what the stream is known by, until it is closed. */
    struct description *first = (struct description *)(void *)stream, *last = description_of_stream(stream);
    unsigned site = last->site;
    if (!first->is_replaced)
        first->references++;
    foretell_slice_close(last->handle);
    first->is_replaced = true;
    first->replacement = NULL;
    int handle = open_file(site, AT_FDCWD, path, flags_of_mode(mode));
    if (handle < 0)
        return NULL;
    first->replacement = handles[handle];
    return stream;
}

/* A stream of a file that the program alone has, as one that is made for the time being (mkstemp(3)): it is written and
 * closed. What is read from it the program hands over, where that can be told from reads of other files. */
static FILE *stream_elsewhere(void)
{
    struct description *description = calloc(1, sizeof *description);
    if (description == NULL)
        foretell_slice_give_up();
    description->magic = DESCRIPTION;
    description->descriptor = -1;
    description->status.st_mode = S_IFREG | 0600;
    description->written = description->printed = true;
    description->handle = new_handle(description, FIRST_HANDLE);
    if (description->handle < 0)
        foretell_slice_give_up();
    return (FILE *)(void *)description;
}

FILE *foretell_slice_fdopen(int fd, const char *mode)
{
    if (fd >= HANDLES)
        return stream_elsewhere();
    struct description *description = description_of(fd);
    (void)mode;
    description->handle = fd;
    return (FILE *)(void *)description;
}

int foretell_slice_fclose(FILE *stream)
{
    if (!is_ours(stream))
        return 0;
    struct description *first = (struct description *)(void *)stream;
    bool is_replaced = first->is_replaced;
    int result = foretell_slice_close(description_of_stream(stream)->handle);
    if (is_replaced)
        release(first);
    return result;
}

int foretell_slice_fseeko(FILE *stream, long long offset, int whence)
{
    struct description *description = description_of_stream(stream);
    note_turn(description);
    if (description->printed && whence != SEEK_SET) {
        description->lost = true;
        return 0; /* from where to where nobody asks yet */
    }
    if (foretell_slice_lseek(description->handle, offset, whence) < 0)
        return -1;
    description->at_end = false;
    if (description->stream != NULL)
        fseeko(description->stream, description->offset, SEEK_SET);
    return 0;
}

int foretell_slice_fseek(FILE *stream, long offset, int whence)
{
    return foretell_slice_fseeko(stream, offset, whence);
}

void foretell_slice_rewind(FILE *stream)
{
    foretell_slice_fseeko(stream, 0, SEEK_SET);
    foretell_slice_clearerr(stream);
}

long long foretell_slice_ftello(FILE *stream)
{
    if (description_of_stream(stream)->printed)
        foretell_slice_give_up();
    return description_of_stream(stream)->offset;
}

long foretell_slice_ftell(FILE *stream)
{
    return (long)foretell_slice_ftello(stream);
}

int foretell_slice_fgetpos(FILE *stream, void *position)
{
    /* Of a file that is printed to, one that is not known; it is no number to anybody but fsetpos. */
    long long offset = description_of_stream(stream)->printed ? NOWHERE : foretell_slice_ftello(stream);
    memcpy(position, &offset, sizeof offset);
    return 0;
}

int foretell_slice_fsetpos(FILE *stream, const void *position)
{
    long long offset;
    memcpy(&offset, position, sizeof offset);
    struct description *description = description_of_stream(stream);
    if (offset == NOWHERE && description->printed) {
        note_turn(description);
        description->lost = true;
        return 0;
    }
    return foretell_slice_fseeko(stream, offset, SEEK_SET);
}

int foretell_slice_feof(FILE *stream)
{
    struct description *description = description_of_stream(stream);
    return description->at_end || (description->stream != NULL && feof(description->stream));
}

int foretell_slice_ferror(FILE *stream)
{
    return description_of_stream(stream)->failed;
}

void foretell_slice_clearerr(FILE *stream)
{
    struct description *description = description_of_stream(stream);
    description->at_end = description->failed = false;
    if (description->stream != NULL)
        clearerr(description->stream);
}

int foretell_slice_fileno(FILE *stream)
{
    return description_of_stream(stream)->handle;
}

size_t foretell_slice_fwrite(size_t size, size_t count_of_items, FILE *stream)
{
    /* Standard output is not. */
    if (is_ours(stream))
        write_on(description_of_stream(stream), size * count_of_items);
    return count_of_items;
}

int foretell_slice_fprintf(FILE *stream)
{
    if (is_ours(stream)) {
        struct description *description = description_of_stream(stream);
        if (!description->unreadable && !description->printed && !description->updates)
            foretell_slice_end();
        description->printed = description->written = description->lost = true;
    }
    return 1;
}

/* An access of a stream, predicted only. Returns the bytes there are. */
static long long prefetch_stream(struct description *description, size_t bytes)
{
    long long offset = description->offset;
    long long got = there(description, bytes, offset);
    if (got < 0) {
        description->failed = true;
        return 0;
    }
    description->at_end = description->at_end || (unsigned long long)got < bytes;
    description->offset += got;
    if (leaves(&description->window, offset, got))
        predict(description, offset, got);
    return got;
}

size_t foretell_prefetch_fread(size_t size, size_t count_of_items, FILE *stream)
{
    size_t bytes;
    if (__builtin_mul_overflow(size, count_of_items, &bytes))
        foretell_slice_give_up();
    return bytes == 0 ? 0 : (size_t)prefetch_stream(description_of_stream(stream), bytes) / size;
}

int foretell_prefetch_getc(FILE *stream)
{
    struct description *description = (struct description *)(void *)stream;
    /* Most characters lie in the pages of the last access. */
    if (is_ours(stream) && !description->is_replaced && !description->unpredictable && !description->unreadable &&
        description->offset >= description->window.begin && description->offset < description->window.end &&
        description->offset < description->size) {
        description->offset++;
        return 0;
    }
    return prefetch_stream(description_of_stream(stream), 1) == 1 ? 0 : EOF;
}

/* A stream of libc's on the same file, standing where the slice's stands. */
static FILE *begin_fetch(struct description *description)
{
    if (description->unpredictable)
        foretell_slice_give_up();
    if (description->written || description->descriptor < 0)
        await_turns(description);
    if (description->stream == NULL) {
        description->stream = fdopen(description->descriptor, "r");
        if (description->stream == NULL)
            foretell_slice_give_up();
    }
    if (ftello(description->stream) != description->offset)
        fseeko(description->stream, description->offset, SEEK_SET);
    if (description->offset < description->window.begin || description->offset >= description->window.end) {
        wait_to_fetch(description, page_bytes());
        read_around(description, description->offset);
    }
    return description->stream;
}

/* Bytes of the stream's buffer that may be taken as they are: they come next, and lie in pages that have been predicted.
 * A slice that needs each byte of a file would otherwise be slower than its program. */
static size_t fetched_already(const struct description *description)
{
#ifdef FORETELL_OPEN_STREAMS
    const FILE *stream = description->stream;
    if (stream == NULL || description->unpredictable || description->written)
        return 0;
    long long left = stream->_IO_read_end - stream->_IO_read_ptr;
    return left > 0 && description->buffer_end - description->offset == left &&
                   description->offset >= description->window.begin &&
                   description->buffer_end <= description->window.end
               ? (size_t)left
               : 0;
#else
    (void)description;
    return 0;
#endif
}

/* Takes bytes out of the buffer. */
static void take_fetched(struct description *description, void *to, size_t bytes)
{
#ifdef FORETELL_OPEN_STREAMS
    memcpy(to, description->stream->_IO_read_ptr, bytes);
    description->stream->_IO_read_ptr += bytes;
#else
    (void)to;
#endif
    description->offset += (long long)bytes;
}

static void end_fetch(struct description *description)
{
    int saved = errno;
    long long before = description->offset, now = ftello(description->stream);
    description->offset = now;
    check_changes(description, before, now);
    if (leaves(&description->window, before, now - before)) {
        if (description->slot != NULL)
            note_read(description, before, now - before, now_ns() - description->fetch_begun_ns);
        predict_fetched(description, before, now - before);
    }
#ifdef FORETELL_OPEN_STREAMS
    description->buffer_end = now + (description->stream->_IO_read_end - description->stream->_IO_read_ptr);
#endif
    errno = saved;
}

size_t foretell_fetch_fread(void *buffer, size_t size, size_t count_of_items, FILE *stream)
{
    struct description *description = description_of_stream(stream);
    size_t bytes;
    if (!__builtin_mul_overflow(size, count_of_items, &bytes) && bytes > 0 && bytes <= fetched_already(description)) {
        take_fetched(description, buffer, bytes);
        return count_of_items;
    }
    size_t got = fread(buffer, size, count_of_items, begin_fetch(description));
    end_fetch(description);
    return got;
}

char *foretell_fetch_fgets(char *line, int room, FILE *stream)
{
    struct description *description = description_of_stream(stream);
#ifdef FORETELL_OPEN_STREAMS
    size_t there = room > 1 ? fetched_already(description) : 0;
    size_t most = there < (size_t)room - 1 ? there : (size_t)room - 1;
    const char *end = there > 0 ? memchr(description->stream->_IO_read_ptr, '\n', most) : NULL;
    if (end != NULL) {
        size_t bytes = (size_t)(end - description->stream->_IO_read_ptr) + 1;
        take_fetched(description, line, bytes);
        line[bytes] = 0;
        return line;
    }
#endif
    char *got = fgets(line, room, begin_fetch(description));
    end_fetch(description);
    return got;
}

int foretell_fetch_getc(FILE *stream)
{
    struct description *description = description_of_stream(stream);
    if (fetched_already(description) > 0) {
        unsigned char taken;
        take_fetched(description, &taken, 1);
        return taken;
    }
    int byte = getc(begin_fetch(description));
    end_fetch(description);
    return byte;
}

int foretell_fetch_ungetc(int byte, FILE *stream)
{
    struct description *description = description_of_stream(stream);
    int pushed = ungetc(byte, begin_fetch(description));
    if (pushed != EOF)
        description->offset--;
    description->at_end = false;
    return pushed;
}

ssize_t foretell_fetch_getdelim(char **line, size_t *room, int delimiter, FILE *stream)
{
    struct description *description = description_of_stream(stream);
    ssize_t got = getdelim(line, room, delimiter, begin_fetch(description));
    end_fetch(description);
    return got;
}

ssize_t foretell_fetch_getline(char **line, size_t *room, FILE *stream)
{
    return foretell_fetch_getdelim(line, room, '\n', stream);
}

int foretell_fetch_vfscanf(FILE *stream, const char *format, va_list arguments)
{
    struct description *description = description_of_stream(stream);
    int got = vfscanf(begin_fetch(description), format, arguments);
    end_fetch(description);
    return got;
}

int foretell_fetch_fscanf(FILE *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int got = foretell_fetch_vfscanf(stream, format, arguments);
    va_end(arguments);
    return got;
}
