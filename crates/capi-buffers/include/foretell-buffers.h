/*
 * foretell-buffers.h: objects of stores (S3, Google, Azure, HTTP, local files) through a pool of buffers in memory, which
 * fetches ahead what is disclosed and replaces what will be needed last. foretell-buffers(3) describes it.
 *
 * What fails is -1 or NULL with errno; foretell_pool_error() gives the line that says what and where:
 *
 *   ENOENT     there is no such object               EACCES     the store refuses: check the credentials
 *   ESTALE     it was changed since it was opened    ETIMEDOUT  nothing came within the time-out
 *   EIO        the store failed, again and again     EINVAL     an argument, a URL or an option is wrong
 *   ENOSPC     a limit of the pool is reached        ENOMEM     there is no memory for the pool
 *   ENOTCONN   the service is not there, or is gone  EPERM      the pool belongs to the parent of a fork
 *
 * All functions may be called from all threads; an object or a view is given back once, when no call uses it any more. In
 * the child of a fork(2) a pool and its objects are of no use: calls fail with EPERM. None may be called from a signal handler.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FORETELL_BUFFERS_H
#define FORETELL_BUFFERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct foretell_pool;
struct foretell_object;

/* An option of a store, as the Rust crate object_store names it: endpoint, region, access_key_id, allow_http. What is not
 * given is taken from the environment (AWS_..., GOOGLE_..., AZURE_...). */
struct foretell_store_option {
    const char *name;
    const char *value;
};

/* How a pool is made. Set it to zeros, then size and budget_bytes, and what else is not to be as usual. */
struct foretell_pool_options {
    size_t size;            /* sizeof(struct foretell_pool_options) */
    uint64_t budget_bytes;  /* memory for parts */
    uint32_t part_bytes;    /* what is fetched, kept and given up as one; 0 for 16384 */
    uint32_t timeout_ms;    /* no call waits longer for a part; 0 for 60000 */
    const char *disk_dir;   /* a folder on a local disk for parts that memory has no room for, or NULL */
    uint64_t disk_bytes;    /* how much of it */
    const struct foretell_store_option *store; /* options of the stores */
    size_t n_store;         /* how many */
};

/* Bytes of an object to be read. */
struct foretell_range {
    struct foretell_object *object;
    uint64_t offset;
    uint64_t length;
};

/* Bytes of an object where they lie in the pool's memory: those from offset on to the end of their part. */
struct foretell_view {
    const void *data;
    size_t length;
    void *lease; /* the library's */
};

/* How a pool fares. References, hits and fetches are in parts. */
struct foretell_pool_stats {
    uint64_t references;
    uint64_t hits;             /* found in memory */
    uint64_t late;             /* found on their way */
    uint64_t demand_fetches;   /* fetched while somebody waited */
    uint64_t prefetches;       /* fetched ahead */
    uint64_t evictions;
    uint64_t requests;         /* of stores */
    uint64_t requests_failed;  /* of them, with all their retries */
    uint64_t fetched_bytes;    /* from stores */
    uint64_t wasted_bytes;     /* of them, given up without having been read */
    uint64_t memory_bytes;
    uint64_t leased_bytes;     /* of them, in views */
    uint64_t disclosed_ahead;  /* disclosed and not read yet */
    uint64_t objects;          /* open */
    uint64_t disk_read_bytes;
    uint64_t disk_written_bytes;
    uint64_t reserved[8];
};

/* A pool of this process, or the one that a service has for this user (foretell buffers): socket is where it listens, or NULL
 * for the usual place; of the options only timeout_ms and those of stores count there. */
struct foretell_pool *foretell_pool_new(const struct foretell_pool_options *options);
struct foretell_pool *foretell_pool_service(const char *socket, const struct foretell_pool_options *options);

/* Gives a pool back. Objects and views of it may be given back later. */
void foretell_pool_free(struct foretell_pool *pool);

/* Opens an object by its URL, s3://bucket/key: asks for its length and state, which are pinned. What the pool has of an object
 * goes when the last handle of it is closed. */
struct foretell_object *foretell_object_open(struct foretell_pool *pool, const char *url);
void foretell_object_close(struct foretell_object *object);
uint64_t foretell_object_length(const struct foretell_object *object);

/* Reads as pread(2) does, but for that all of count bytes come unless the object ends before: 0 at its end. */
ssize_t foretell_object_read_at(struct foretell_object *object, void *buffer, size_t count, uint64_t offset);

/* Shows the bytes from offset on without a copy, as many as lie in one part; they stay where they are until the view is
 * released. In all views no more than the budget is held (ENOSPC). Of a service's pool it is a copy. */
int foretell_object_view(struct foretell_object *object, uint64_t offset, struct foretell_view *view);
void foretell_view_release(struct foretell_view *view);

/* These will be read next, in this order, after all that was disclosed before. Returns how many were taken. */
ssize_t foretell_pool_disclose(struct foretell_pool *pool, const struct foretell_range *ranges, size_t n);

/* What was disclosed and has not been read yet is withdrawn. */
int foretell_pool_cancel(struct foretell_pool *pool);

/* The priority of an object, 0 unless set: parts of lower priority are replaced first; and the policy of a priority, a number
 * of foretell.h (0 LRU, 1 MRU, 2 S3-FIFO, 3 SIEVE, 4 Linux, 5 LIRS, 6 adaptive). */
int foretell_object_set_priority(struct foretell_object *object, int prio);
int foretell_pool_set_policy(struct foretell_pool *pool, int prio, int policy);

/* The priority of those parts that are in memory now and whose last byte is in the range, until each is read or replaced; and:
 * they will not be read again. A length of 0 stands for all that follows. */
int foretell_object_set_temppri(struct foretell_object *object, uint64_t offset, uint64_t length, int prio);
int foretell_object_done_with(struct foretell_object *object, uint64_t offset, uint64_t length);

/* How the pool fares. */
int foretell_pool_stats(struct foretell_pool *pool, struct foretell_pool_stats *stats);

/* What the last call of this thread that failed has to say, one line; valid until the next one fails. */
const char *foretell_pool_error(void);

#ifdef __cplusplus
}
#endif

#endif
