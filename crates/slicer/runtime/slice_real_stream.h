/* The program's side of streams: what is taken out of a stream's buffer is counted where it leaves the pages of the last
 * counted access. */

/* ---- hot streams (foretell_slice.h) ---- */

FILE *foretell_hot_streams[FORETELL_STREAMS];

static void set_hot(FILE *stream)
{
    early.was_hot = true;
    __atomic_store_n(&foretell_hot_streams[FORETELL_STREAM_SLOT(stream)], stream, __ATOMIC_RELAXED);
}

static bool is_hot(FILE *stream)
{
    return __atomic_load_n(&foretell_hot_streams[FORETELL_STREAM_SLOT(stream)], __ATOMIC_RELAXED) == stream;
}

static void set_cold(FILE *stream)
{
    if (early.was_hot && is_hot(stream))
        __atomic_store_n(&foretell_hot_streams[FORETELL_STREAM_SLOT(stream)], NULL, __ATOMIC_RELAXED);
}

/* ---- streams ---- */

FILE *foretell_real_fopen(unsigned site, const char *path, const char *mode)
{
    if (opens_in_passing(site)) {
        FILE *made = fopen(path, mode);
        if (made != NULL)
            set_cold(made);
        opened_in_passing(site, made != NULL ? fileno(made) : -1, flags_of_mode(mode));
        return made;
    }
    bool counted = counting();
    unsigned number = counted ? next_open(site) : 0;
    uint64_t begun_ns = counted ? begin_open() : 0;
    FILE *stream = fopen(path, mode);
    if (stream != NULL)
        set_cold(stream);
    if (counted)
        opened(site, number, path, stream != NULL ? fileno(stream) : -1, flags_of_mode(mode));
    end_open(begun_ns);
    return stream;
}

FILE *foretell_real_freopen(const char *path, const char *mode, FILE *stream)
{
    struct stat status;
    struct real_file *file = real_stream(stream);
    bool has_size = file != NULL && fstat(fileno(stream), &status) == 0 && (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
    unsigned site = has_size ? file->site : FORETELL_UNTRACKED;
    set_cold(stream);
    if (path == NULL) /* there the slice gives up */
        return freopen(path, mode, stream);
    forget_descriptor(fileno(stream));
    unsigned number = next_open(site);
    uint64_t begun_ns = number != 0 ? begin_open() : 0;
    FILE *again = freopen(path, mode, stream);
    opened(site, number, path, again != NULL ? fileno(again) : -1, flags_of_mode(mode));
    end_open(begun_ns);
    return again;
}

/* Bytes of its buffer that a stream has not given away yet; 0 if the C library does not show them. */
static long long buffered(FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    return stream->_IO_read_end - stream->_IO_read_ptr;
#else
    (void)stream;
    return 0;
#endif
}

/* Where the stream stands. What was taken out of its buffer since it became hot has moved it unseen. */
static long long stands_at(struct real_file *file, FILE *stream)
{
    if (file->hot == stream)
        file->position += file->hot_buffered - buffered(stream);
    file->hot = NULL;
    return file->position;
}

/* The stream stands where it is known to stand; all that is in its buffer lies in pages that have been counted? */
static void look_at_buffer(struct real_file *file, FILE *stream)
{
    long long left = buffered(stream);
    if (left <= 0 || file->position < file->window.begin || file->position + left > file->window.end)
        return;
    file->hot = stream;
    file->hot_buffered = left;
    set_hot(stream);
}

static void ask_position(struct real_file *file, FILE *stream)
{
    int saved = errno;
    file->position = ftello(stream);
    file->hot = NULL;
    errno = saved;
}

FILE *foretell_real_fdopen(int fd, const char *mode)
{
    FILE *stream = fdopen(fd, mode);
    struct real_file *file = real_file(fd);
    if (stream != NULL) {
        set_cold(stream);
        if (file != NULL)
            ask_position(file, stream);
    }
    return stream;
}

int foretell_real_fclose(FILE *stream)
{
    set_cold(stream);
    if (counting())
        forget_descriptor(fileno(stream));
    return fclose(stream);
}

/* A call on a stream, from before to after it. */
struct stream_call {
    struct real_file *file; /* NULL: nobody follows it */
    long long before;
    uint64_t begun_ns;
    bool inside; /* it cannot leave the pages that have been counted */
};

/* Before a call that takes at most `most` bytes out of the stream; -1: any number of them. */
static inline struct stream_call begin_stream(FILE *stream, long long most)
{
    struct stream_call call = {real_stream(stream), 0, 0, false};
    if (call.file == NULL) {
        set_hot(stream);
        return call;
    }
    call.before = stands_at(call.file, stream);
    set_cold(stream);
    call.inside = most >= 0 && call.before >= call.file->window.begin && call.before + most <= call.file->window.end;
    if (!call.inside)
        call.begun_ns = begin_access(call.file);
    return call;
}

/* After it; the stream stands at `now`. */
static inline void end_stream(const struct stream_call *call, FILE *stream, long long now)
{
    call->file->position = now;
    if (leaves(&call->file->window, call->before, now - call->before))
        end_access(call->file, call->begun_ns, call->before, now - call->before);
    look_at_buffer(call->file, stream);
}

static void end_stream_anywhere(const struct stream_call *call, FILE *stream)
{
    if (call->file == NULL)
        return;
    int saved = errno;
    end_stream(call, stream, ftello(stream));
    errno = saved;
}

static __attribute__((noinline)) size_t counted_fread(void *buffer, size_t size, size_t count_of_items, FILE *stream)
{
    size_t bytes;
    bool sane = !__builtin_mul_overflow(size, count_of_items, &bytes) && bytes <= LLONG_MAX / 2;
    struct stream_call call = begin_stream(stream, sane ? (long long)bytes : -1);
    size_t got = fread(buffer, size, count_of_items, stream);
    if (call.file != NULL && sane && got == count_of_items)
        end_stream(&call, stream, call.before + (long long)bytes);
    else
        end_stream_anywhere(&call, stream);
    return got;
}

size_t foretell_counted_fread(void *buffer, size_t size, size_t count_of_items, FILE *stream)
{
    if (early.is_counted)
        return counted_fread(buffer, size, count_of_items, stream);
    set_hot(stream);
    return fread(buffer, size, count_of_items, stream);
}

char *foretell_counted_fgets(char *line, int room, FILE *stream)
{
    struct stream_call call = begin_stream(stream, room > 0 ? room - 1 : 0);
    char *got = fgets(line, room, stream);
    end_stream_anywhere(&call, stream);
    return got;
}

int foretell_counted_getc(FILE *stream)
{
    struct stream_call call = begin_stream(stream, 1);
    int byte = getc(stream);
    if (call.file != NULL)
        end_stream(&call, stream, call.before + (byte != EOF));
    return byte;
}

int foretell_real_ungetc(int byte, FILE *stream)
{
    struct real_file *file = real_stream(stream);
    long long before = file != NULL ? stands_at(file, stream) : 0;
    set_cold(stream);
    int pushed = ungetc(byte, stream);
    if (file != NULL && pushed != EOF)
        file->position = before - 1;
    return pushed;
}

ssize_t foretell_counted_getdelim(char **line, size_t *room, int delimiter, FILE *stream)
{
    struct stream_call call = begin_stream(stream, -1);
    ssize_t got = getdelim(line, room, delimiter, stream);
    if (call.file != NULL && got > 0)
        end_stream(&call, stream, call.before + got);
    else
        end_stream_anywhere(&call, stream);
    return got;
}

int foretell_real_vfscanf(FILE *stream, const char *format, va_list arguments)
{
    /* Of a hot stream that is still in its buffer afterwards nothing has been read but what was there. It cannot be
     * told from one that has been read for longer than its buffer; no field is. */
    bool hot = is_hot(stream);
    long long before = buffered(stream);
    if (hot && before > 0) {
        int got = vfscanf(stream, format, arguments);
        struct real_file *file = buffered(stream) > before || buffered(stream) == 0 ? real_stream(stream) : NULL;
        if (file != NULL && file->hot == stream) {
            struct stream_call call = {file, file->position + file->hot_buffered - before, 0, false};
            call.begun_ns = begin_access(file);
            file->hot = NULL;
            set_cold(stream);
            end_stream_anywhere(&call, stream);
        }
        return got;
    }
    struct stream_call call = begin_stream(stream, -1);
    int got = vfscanf(stream, format, arguments);
    end_stream_anywhere(&call, stream);
    return got;
}

int foretell_real_fscanf(FILE *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int got = foretell_real_vfscanf(stream, format, arguments);
    va_end(arguments);
    return got;
}

static __attribute__((noinline)) int counted_fseeko(FILE *stream, struct real_file *file, long long offset, int whence)
{
    long long before = stands_at(file, stream);
    set_cold(stream);
    begin_change(file, 0, LLONG_MAX);
    int result = fseeko(stream, offset, whence);
    end_change(file);
    if (result == 0 && whence == SEEK_SET)
        file->position = offset;
    else if (result == 0 && whence == SEEK_CUR)
        file->position = before + offset;
    else
        ask_position(file, stream);
    look_at_buffer(file, stream);
    return result;
}

int foretell_real_fseeko(FILE *stream, long long offset, int whence)
{
    struct real_file *file = real_stream(stream);
    if (file == NULL)
        return fseeko(stream, offset, whence); /* of a hot stream nobody follows, it stays hot */
    return counted_fseeko(stream, file, offset, whence);
}

int foretell_real_fseek(FILE *stream, long offset, int whence)
{
    return foretell_real_fseeko(stream, offset, whence);
}

void foretell_real_rewind(FILE *stream)
{
    struct real_file *file = real_stream(stream);
    set_cold(stream);
    begin_change(file, 0, LLONG_MAX);
    rewind(stream);
    end_change(file);
    if (file != NULL) {
        file->hot = NULL;
        file->position = 0;
    }
}

void foretell_real_moved(FILE *stream)
{
    struct real_file *file = real_stream(stream);
    set_cold(stream);
    begin_change(file, 0, LLONG_MAX);
    end_change(file);
    if (file != NULL)
        ask_position(file, stream);
}
