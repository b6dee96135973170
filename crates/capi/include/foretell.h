/*
 * foretell.h: a program controls its own file caching, and discloses what it will read.
 *
 * The interface is that of application-controlled file caching (Cao, Felten, Li, OSDI 1994, section 3; Cao,
 * Felten, Karlin, Li, ACM TOCS 1996, section 4.1), with some calls of today beside it. foretell(3) describes it.
 *
 * No call waits for the service, and without one every call succeeds and does no harm. What is reported, as -1
 * with errno, is a mistake in the call: no open descriptor (EBADF), no regular file or an impossible number
 * (EINVAL), a null pointer (EFAULT), too many levels or files with a priority (ENOSPC).
 *
 * All functions may be called from all threads, and after fork(2) in the child. None may be called from a
 * signal handler.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FORETELL_H
#define FORETELL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a block in calls that count in blocks. */
#define FORETELL_BLOCK 8192

/* Which block of a priority level is replaced first. */
#define FORETELL_LRU 0 /* the least recently used one: what holds unless set */
#define FORETELL_MRU 1 /* the most recently used one: for scans that are repeated and do not fit */
#define FORETELL_S3_FIFO 2 /* S3-FIFO: what is read once passes through quickly */
#define FORETELL_SIEVE 3 /* SIEVE: the oldest one that was not read lately */
#define FORETELL_LINUX 4 /* what the kernel would replace */
#define FORETELL_LIRS 5 /* LIRS: for mixtures of scans and of what is read often */
#define FORETELL_ADAPTIVE 6 /* the best of these, found out while the program reads */

/* Bytes start to before end of a file. */
struct foretell_chunk {
    int fd;
    int64_t start;
    int64_t end;
};

/* How the process fares. Blocks are those of the service, 8 KiB unless set up otherwise. */
struct foretell_stats {
    uint64_t connected;         /* 1 when there is a connection, else 0 */
    uint64_t sent;              /* directives and hints sent so far */
    uint64_t dropped;           /* hints dropped so far, as the service did not keep up */
    uint64_t refused;           /* directives and hints refused by the service's limits */
    uint64_t disclosed;         /* blocks disclosed */
    uint64_t disclosed_ahead;   /* of them, not read yet */
    uint64_t owned;             /* blocks in the cache at present */
    uint64_t references;        /* blocks read */
    uint64_t hits;              /* of them, found in the cache */
    uint64_t demand_fetches;    /* blocks fetched while the program waited */
    uint64_t prefetches;        /* blocks fetched before */
    uint64_t prefetches_useful; /* of them, read after they had arrived */
    uint64_t prefetches_late;   /* of them, read before they had arrived */
    uint64_t prefetches_wasted; /* of them, never read */
    uint64_t evictions;         /* blocks dropped from the cache */
    uint64_t overruled;         /* times that another block went than the one proposed */
    uint64_t placeholders_used; /* times that this proved wrong */
    uint64_t revoked;           /* 1 while the right to overrule is revoked, else 0 */
    uint64_t reserved[6];
};

/* The long-term priority of a file's blocks, 0 unless set. Blocks of lower priority are replaced first. */
int foretell_set_priority(int fd, int prio);
int foretell_get_priority(int fd, int *prio);

/* The replacement policy of a priority level: one of the seven above. */
int foretell_set_policy(int prio, int policy);
int foretell_get_policy(int prio, int *policy);

/* The priority of those blocks, start_block to end_block, that are cached now, until each is read or replaced. */
int foretell_set_temppri(int fd, uint64_t start_block, uint64_t end_block, int prio);

/* The files opened between the two calls, and still open at the second, will be read from beginning to end in
 * the order in which they were opened; n of them at most, or all if n is 0. Returns how many were disclosed. */
int foretell_file_list_start(size_t n);
ssize_t foretell_file_list_end(void);

/* These chunks will be read next, in this order, after all that was disclosed before. Returns how many were
 * taken: n, unless the service does not keep up. */
ssize_t foretell_block_list(const struct foretell_chunk *list, size_t n);

/* The same for one part of a file; a length of 0 stands for all that follows. */
int foretell_disclose_fd(int fd, int64_t offset, int64_t length);

/* This part of a file will not be read again; a length of 0 stands for all that follows. */
int foretell_done_with(int fd, int64_t offset, int64_t length);

/* What was disclosed and has not been read yet is withdrawn. */
int foretell_cancel(void);

/* How the process fares. */
int foretell_stats(struct foretell_stats *st);

/* 1 when there is a connection to a service, else 0. Tries to connect if it is time for it. */
int foretell_connected(void);

#ifdef __cplusplus
}
#endif

#endif
