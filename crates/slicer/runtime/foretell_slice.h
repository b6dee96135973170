/* Runtime of programs that `foretell slice` has translated: a program and, beside it, a *slice* of it
 * that contains only what its file accesses depend on, runs ahead, and prefetches what the program is
 * about to read (Chuan-Kai Yang, Tulika Mitra, Tzi-cker Chiueh: A decoupled architecture for
 * application-specific file prefetching, 2002).
 *
 * Four families of calls:
 *
 *   foretell_real_X      in the program, in place of X: does X, and counts the call.
 *   foretell_prefetch_X  in the slice, in place of X, "predict only": no data is read. Moves the slice's own
 *                        offset, computes what X would return from the size of the file, and queues a
 *                        prefetch of the range. Same arguments as X, but for the buffer.
 *   foretell_fetch_X     in the slice, in place of X, "predict and read": as above, and the data is read
 *                        through the page cache, since the slice needs it. Same arguments as X.
 *   foretell_slice_X     in the slice, in place of X: X without an access (open, seek, close, tell).
 *
 * Open files are the same file to both sides if they come from the same open call of the source (`site`,
 * a number above 0 that is unique in the whole program) and are the n-th open of it. Each open file has
 * its own numbers of accesses. Access i as the slice predicted it is compared with access i as the program
 * makes it; when they differ, the slice ends, silently and for good.
 *
 * What counts as an access. For descriptors each call is one: its offset and the bytes that it returned
 * (0 at the end of the file or after an error). For streams and for mapped memory, where calls are of a
 * few bytes, an access is counted when a call touches bytes outside the pages that the last counted access
 * of that open file (or mapping) touched.
 *
 * The slice never sees a descriptor or a stream of the program. Its descriptors are small numbers that
 * only this runtime understands, its streams are opaque: both may be compared, copied, stored and passed
 * on, but given to nothing but the calls below. It opens files read-only and never creates one: an open
 * that would create or truncate a file gives an empty one that exists in the slice alone, an open for
 * writing gives one to which writes go nowhere.
 *
 * In the slice, calls that touch no file are made directly: opendir, readdir, stat, access, getenv.
 *
 * The program's calls pass through what is not followed: standard input, sockets, files of other sites. In
 * the slice a descriptor or stream that the slice did not open ends it, except in close and fclose, which
 * do nothing with it.
 *
 * Include this after the program's own system headers: it includes <stdio.h> and must not be the first to.
 */
#ifndef FORETELL_SLICE_H
#define FORETELL_SLICE_H

#pragma GCC system_header

#ifdef FORETELL_ALONE
/* For a text that is preprocessed already: no header may come a second time, so what they define is spelled as they do. */
#define FILE struct _IO_FILE
#define size_t __SIZE_TYPE__
#define ssize_t __INTPTR_TYPE__
#define mode_t __UINT32_TYPE__
#define va_list __builtin_va_list
#define memcpy __builtin_memcpy
#define memchr __builtin_memchr
#undef NULL
#define NULL ((void *)0)
FILE;
#else
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct iovec;
struct stat;

/* A site whose accesses the slice neither predicts nor counts: for files that it reads for itself. */
enum { FORETELL_UNTRACKED = 0 };

/* Most synchronisation points of a program, numbered from 0. */
#define FORETELL_SYNC_POINTS 256

/* Most bytes of one message of the channel. */
#define FORETELL_MESSAGE_BYTES 65536

/* ---- annotations of the program, read by the translator ------------------------------------------------ */

/* This file (a descriptor or a stream) is worth prefetching; where one is marked, the others are not. */
#define FORETELL_PREFETCH(file) ((void)(file))
/* Before the declaration of a function: its result depends on its arguments alone and it changes nothing. */
#define FORETELL_PURE
/* Before the declaration of a function: it writes through argument n, counted from 1, and changes nothing else. */
#define FORETELL_WRITES(n)

/* ---- start and end ---------------------------------------------------------------------------------- */

/* First act of the translated main: starts the slice, in a forked process by default. The slice ends when
 * `slice` returns, calls foretell_slice_end(), fails, or the program ends. FORETELL_SLICE=off|thread|fork
 * in the environment chooses how. Never fails: what cannot be started is not there. The arguments are
 * handed to `slice`, which must not write through them. */
void foretell_slice_start(void (*slice)(int argc, char **argv, char **envp), int argc, char **argv, char **envp);

/* The same for a slice that changes state of libc (rand, strtok, getopt) or writes through its arguments:
 * never a thread; FORETELL_SLICE=thread then means off. */
void foretell_slice_start_forked(void (*slice)(int argc, char **argv, char **envp), int argc, char **argv,
                                 char **envp);

/* Slice: ends it here, as exit() in the program would. What is queued is still prefetched. */
void foretell_slice_end(void) __attribute__((noreturn));

/* Slice: something cannot be predicted any more; ends the slice and drops what is queued. */
void foretell_slice_give_up(void) __attribute__((noreturn));

/* Program, before the start: it has calls that make or change files. */
void foretell_slice_makes_files(void);

/* Program: ends the slice here and now; when this returns, nothing of it is left. Stands before calls that change
 * who the program is or what it may do, that end it, or make it another one. */
void foretell_slice_leave(void);

/* Program: has changed a limit of resources; ends the slice likewise if one is lower than it was. Until it has been told
 * the result, the slice waits. */
void foretell_slice_limited(void);
/* Program, before the start: what foretell_slice_limited() compares with. */
void foretell_slice_remember_limits(void);

/* Slice: frees memory that the slice has allocated. */
void foretell_slice_free(void *memory);

/* Slice: what is called through a pointer in place of this function: foretell_slice_free() where it is free(). */
void (*foretell_slice_function(void (*function)(void)))(void);

/* ---- channel and synchronisation points ------------------------------------------------------------- */

/* Program: hands `bytes` bytes at `value` to the slice under the number `channel` (any number; both sides
 * send and receive in the same order, and a receive that finds another number ends the slice). Never
 * waits long: if the slice does not keep up, it ends. */
void foretell_send(unsigned channel, const void *value, size_t bytes);

/* Slice: waits for the next value of the program and copies at most `room` bytes of it. Returns the bytes
 * that were sent. Does not return when none will come. */
size_t foretell_receive(unsigned channel, void *value, size_t room);

/* Program, after a call on standard input that was sent: shows what its stream has in its buffer. NULL is stdin. */
void foretell_show_input(FILE *stream);

/* Slice, in place of calls on standard input that the program sends: makes them on what is shown, and receives where
 * nothing is. */
int foretell_told_getc(unsigned channel);
char *foretell_told_fgets(unsigned channel, char *line, int room);
ssize_t foretell_told_getdelim(unsigned channel, char **line, size_t *room, int delimiter);
size_t foretell_told_fread(unsigned channel, void *buffer, size_t size, size_t count);

/* The paper's synchronize(point, signal) and synchronize(point, wait): the n-th wait in the slice goes on
 * after the n-th signal in the program. */
void foretell_synchronize_signal(unsigned point);
void foretell_synchronize_wait(unsigned point);

/* ---- the program's calls: do, and count -------------------------------------------------------------- */

int foretell_real_open(unsigned site, const char *path, int flags, ...);
int foretell_real_openat(unsigned site, int directory, const char *path, int flags, ...);
int foretell_real_creat(unsigned site, const char *path, mode_t mode);
int foretell_real_close(int fd);
int foretell_real_dup(int fd);
int foretell_real_dup2(int fd, int to);
ssize_t foretell_real_read(int fd, void *buffer, size_t bytes);
ssize_t foretell_real_pread(int fd, void *buffer, size_t bytes, long long offset);
ssize_t foretell_real_readv(int fd, const struct iovec *parts, int count);
ssize_t foretell_real_preadv(int fd, const struct iovec *parts, int count, long long offset);

ssize_t foretell_real_write(int fd, const void *buffer, size_t bytes);
ssize_t foretell_real_pwrite(int fd, const void *buffer, size_t bytes, long long offset);
int foretell_real_ftruncate(int fd, long long bytes);

FILE *foretell_real_fopen(unsigned site, const char *path, const char *mode);
FILE *foretell_real_freopen(const char *path, const char *mode, FILE *stream);
FILE *foretell_real_fdopen(int fd, const char *mode);
int foretell_real_fclose(FILE *stream);
int foretell_real_ungetc(int byte, FILE *stream);
int foretell_real_fscanf(FILE *stream, const char *format, ...) __attribute__((format(scanf, 2, 3)));
int foretell_real_vfscanf(FILE *stream, const char *format, va_list arguments)
    __attribute__((format(scanf, 2, 0)));
int foretell_real_fseek(FILE *stream, long offset, int whence);
int foretell_real_fseeko(FILE *stream, long long offset, int whence);
void foretell_real_rewind(FILE *stream);
/* After fsetpos(3): the stream may stand anywhere. */
void foretell_real_moved(FILE *stream);

void *foretell_real_mmap(void *address, size_t bytes, int protection, int flags, int fd, long long offset);
int foretell_real_munmap(void *address, size_t bytes);

/* Most calls on a stream find their bytes in its buffer, and those bytes lie in pages that have been counted: nothing
 * is to be done for them but the call itself. Streams of which this is known are *hot*, by a part of their address;
 * the calls below then take the bytes out of the buffer here, as the macros of <stdio.h> do. All others are made by
 * the functions foretell_counted_X. Streams that nobody follows are hot as well, and all are when there is no slice. */
#define FORETELL_STREAMS 64
/* What the inline checks look at. It is only ever wrong in a program whose threads share a stream or a mapping, and then
 * an access is not counted; a sanitizer wants it said. */
#ifdef __SANITIZE_THREAD__
#define FORETELL_LOOK(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#else
#define FORETELL_LOOK(word) (word)
#endif
extern FILE *foretell_hot_streams[FORETELL_STREAMS];
#define FORETELL_STREAM_SLOT(stream) (((size_t)(stream) >> 4 ^ (size_t)(stream) >> 10) % FORETELL_STREAMS)

size_t foretell_counted_fread(void *buffer, size_t size, size_t count, FILE *stream);
char *foretell_counted_fgets(char *line, int room, FILE *stream);
int foretell_counted_getc(FILE *stream);
ssize_t foretell_counted_getdelim(char **line, size_t *room, int delimiter, FILE *stream);

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ) && !defined(FORETELL_NO_STREAMS)
#if __GLIBC_PREREQ(2, 32)
#define FORETELL_OPEN_STREAMS 1
#endif
#endif

#ifdef FORETELL_OPEN_STREAMS
/* <sys/single_threaded.h>: where there is one thread, no lock of the stream is needed. */
extern char __libc_single_threaded;

/* Bytes that may be taken out of the buffer; 0 if the stream is not hot. */
static __inline__ size_t foretell_hot_bytes(FILE *stream)
{
    return FORETELL_LOOK(foretell_hot_streams[FORETELL_STREAM_SLOT(stream)]) == stream && __libc_single_threaded
               ? (size_t)(stream->_IO_read_end - stream->_IO_read_ptr)
               : 0;
}

/* Takes bytes out of the buffer. */
static __inline__ void foretell_take(void *to, size_t bytes, FILE *stream)
{
    memcpy(to, stream->_IO_read_ptr, bytes);
    stream->_IO_read_ptr += bytes;
}

/* Bytes of the buffer up to the end of a line, at most `most`; 0 if it does not end there. */
static __inline__ size_t foretell_line_bytes(FILE *stream, int delimiter, size_t most)
{
    const char *end = most > 0 ? (const char *)memchr(stream->_IO_read_ptr, delimiter, most) : NULL;
    return end != NULL ? (size_t)(end - stream->_IO_read_ptr) + 1 : 0;
}
#endif

static __inline__ int foretell_real_getc(FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    if (__builtin_expect(foretell_hot_bytes(stream) > 0, 1))
        return *(unsigned char *)stream->_IO_read_ptr++;
#endif
    return foretell_counted_getc(stream);
}

/* Who calls this has the stream to itself. */
static __inline__ int foretell_real_getc_unlocked(FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    if (__builtin_expect(FORETELL_LOOK(foretell_hot_streams[FORETELL_STREAM_SLOT(stream)]) == stream &&
                             stream->_IO_read_ptr < stream->_IO_read_end,
                         1))
        return *(unsigned char *)stream->_IO_read_ptr++;
#endif
    return foretell_counted_getc(stream);
}

static __inline__ size_t foretell_real_fread(void *buffer, size_t size, size_t count, FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    size_t bytes;
    if (!__builtin_mul_overflow(size, count, &bytes) && bytes > 0 && bytes <= foretell_hot_bytes(stream)) {
        foretell_take(buffer, bytes, stream);
        return count;
    }
#endif
    return foretell_counted_fread(buffer, size, count, stream);
}

static __inline__ char *foretell_real_fgets(char *line, int room, FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    size_t there = room > 1 ? foretell_hot_bytes(stream) : 0;
    size_t most = there < (size_t)room - 1 ? there : (size_t)room - 1;
    size_t bytes = there > 0 ? foretell_line_bytes(stream, '\n', most) : 0;
    if (bytes == 0 && there > 0 && most == (size_t)room - 1)
        bytes = most; /* the line is longer than the room for it */
    if (bytes > 0) {
        foretell_take(line, bytes, stream);
        line[bytes] = 0;
        return line;
    }
#endif
    return foretell_counted_fgets(line, room, stream);
}

static __inline__ ssize_t foretell_real_getdelim(char **line, size_t *room, int delimiter, FILE *stream)
{
#ifdef FORETELL_OPEN_STREAMS
    size_t bytes = line != NULL && room != NULL && *line != NULL
                       ? foretell_line_bytes(stream, delimiter, foretell_hot_bytes(stream))
                       : 0;
    if (bytes > 0 && bytes < *room) {
        foretell_take(*line, bytes, stream);
        (*line)[bytes] = 0;
        return (ssize_t)bytes;
    }
#endif
    return foretell_counted_getdelim(line, room, delimiter, stream);
}

static __inline__ ssize_t foretell_real_getline(char **line, size_t *room, FILE *stream)
{
    return foretell_real_getdelim(line, room, '\n', stream);
}

/* An access to mapped memory. Returns its first argument, so that `p[i]` becomes FORETELL_REAL(p[i]). What lies in the
 * pages that the last counted access touched is not counted, which is known here; nor is what lies in no mapping. The window
 * is all memory where nothing is counted, and has a page at least; where there is none it begins where no memory is. */
struct foretell_window {
    size_t begin, bytes;
};
#define FORETELL_LEAST_WINDOW 4096
extern struct foretell_window foretell_mapped_window;
void *foretell_counted_access(const void *address, size_t bytes);

static __inline__ void *foretell_real_access(const void *address, size_t bytes)
{
    /* What begins before the window is far behind it in unsigned numbers. */
    if (__builtin_expect(bytes <= FORETELL_LEAST_WINDOW &&
                             (size_t)address - FORETELL_LOOK(foretell_mapped_window.begin) <=
                                 FORETELL_LOOK(foretell_mapped_window.bytes) - bytes,
                         1))
        return (void *)(size_t)address;
    return foretell_counted_access(address, bytes);
}
/* Is mapped memory counted at all? Changes only where something is mapped or unmapped, or a slice ends. */
static __inline__ int foretell_counts_mapped(void)
{
    return FORETELL_LOOK(foretell_mapped_window.bytes) != (size_t)-1;
}
#define FORETELL_REAL(lvalue) (*(__typeof__(&(lvalue)))foretell_real_access((const void *)&(lvalue), sizeof(lvalue)))

/* ---- the slice's calls without an access ------------------------------------------------------------- */

int foretell_slice_open(unsigned site, const char *path, int flags, ...);
int foretell_slice_openat(unsigned site, int directory, const char *path, int flags, ...);
int foretell_slice_creat(unsigned site, const char *path, mode_t mode);
/* The program makes, changes or removes this file. Where the slice opens it to read later, it waits until the program has
 * opened it. Opens that may write say so themselves. */
void foretell_slice_made(const char *path);
int foretell_slice_close(int fd);
int foretell_slice_dup(int fd);
int foretell_slice_dup2(int fd, int to);
long long foretell_slice_lseek(int fd, long long offset, int whence);
int foretell_slice_fstat(int fd, struct stat *status);
/* Moves the offset (and the end of file, in the slice alone) as a write would; returns `bytes`. */
ssize_t foretell_slice_write(int fd, size_t bytes);
ssize_t foretell_slice_pwrite(int fd, size_t bytes, long long offset);
int foretell_slice_ftruncate(int fd, long long bytes);

FILE *foretell_slice_fopen(unsigned site, const char *path, const char *mode);
/* The stream stays the same, and the new file counts as one of the site that the old one was opened at. */
FILE *foretell_slice_freopen(const char *path, const char *mode, FILE *stream);
FILE *foretell_slice_fdopen(int fd, const char *mode);
int foretell_slice_fclose(FILE *stream);
int foretell_slice_fseek(FILE *stream, long offset, int whence);
int foretell_slice_fseeko(FILE *stream, long long offset, int whence);
void foretell_slice_rewind(FILE *stream);
long foretell_slice_ftell(FILE *stream);
long long foretell_slice_ftello(FILE *stream);
/* The slice keeps its offset in what its program calls a position. */
int foretell_slice_fgetpos(FILE *stream, void *position);
int foretell_slice_fsetpos(FILE *stream, const void *position);
int foretell_slice_feof(FILE *stream);
int foretell_slice_ferror(FILE *stream);
void foretell_slice_clearerr(FILE *stream);
int foretell_slice_fileno(FILE *stream);
size_t foretell_slice_fwrite(size_t size, size_t count, FILE *stream);
/* What is printed, and how much, the slice does not know: with a stream that can be read, too, it ends. */
int foretell_slice_fprintf(FILE *stream);

/* Does nothing. Its arguments are computed in the order in which the compiler does this in calls. */
void foretell_slice_in_turn(int first, ...);

/* Directories: the slice calls opendir and readdir themselves, on directories of its own (a DIR pointer holds no
 * offset of the program's). These are for the descriptor of one (a DIR *), which may be given to
 * foretell_slice_openat, and is closed with it. */
int foretell_slice_dirfd(void *directory);
void *foretell_slice_fdopendir(int fd);
int foretell_slice_closedir(void *directory);
int foretell_slice_fchdir(int fd);

/* Maps the file read-only, or privately where the program maps it for writing. */
void *foretell_slice_mmap(void *address, size_t bytes, int protection, int flags, int fd, long long offset);
int foretell_slice_munmap(void *address, size_t bytes);

/* ---- the slice's calls, predict only ------------------------------------------------------------------ */

ssize_t foretell_prefetch_read(int fd, size_t bytes);
ssize_t foretell_prefetch_pread(int fd, size_t bytes, long long offset);
ssize_t foretell_prefetch_readv(int fd, const struct iovec *parts, int count);
ssize_t foretell_prefetch_preadv(int fd, const struct iovec *parts, int count, long long offset);
size_t foretell_prefetch_fread(size_t size, size_t count, FILE *stream);
/* EOF at the end of the file, and 0 otherwise: only the difference between the two means something. */
int foretell_prefetch_getc(FILE *stream);
/* An access of which no byte is needed. */
void foretell_prefetch_access(const void *address, size_t bytes);
#define FORETELL_PREFETCH_ACCESS(lvalue) foretell_prefetch_access((const void *)&(lvalue), sizeof(lvalue))

/* ---- the slice's calls, predict and read -------------------------------------------------------------- */

ssize_t foretell_fetch_read(int fd, void *buffer, size_t bytes);
ssize_t foretell_fetch_pread(int fd, void *buffer, size_t bytes, long long offset);
ssize_t foretell_fetch_readv(int fd, const struct iovec *parts, int count);
ssize_t foretell_fetch_preadv(int fd, const struct iovec *parts, int count, long long offset);
size_t foretell_fetch_fread(void *buffer, size_t size, size_t count, FILE *stream);
char *foretell_fetch_fgets(char *line, int room, FILE *stream);
int foretell_fetch_getc(FILE *stream);
int foretell_fetch_ungetc(int byte, FILE *stream);
ssize_t foretell_fetch_getline(char **line, size_t *room, FILE *stream);
ssize_t foretell_fetch_getdelim(char **line, size_t *room, int delimiter, FILE *stream);
int foretell_fetch_fscanf(FILE *stream, const char *format, ...) __attribute__((format(scanf, 2, 3)));
int foretell_fetch_vfscanf(FILE *stream, const char *format, va_list arguments)
    __attribute__((format(scanf, 2, 0)));
/* An access whose bytes are needed: FORETELL_FETCH(p[i]) in place of p[i]. */
void *foretell_fetch_access(const void *address, size_t bytes);
#define FORETELL_FETCH(lvalue) (*(__typeof__(&(lvalue)))foretell_fetch_access((const void *)&(lvalue), sizeof(lvalue)))

#ifdef __cplusplus
}
#endif

#endif
