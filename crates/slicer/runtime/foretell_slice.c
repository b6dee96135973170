/* The runtime that is linked into programs translated by `foretell slice`; its interface, and what the
 * words mean, is foretell_slice.h. This file only puts the parts together, so that a build has one more
 * object and no new library:
 *
 *   slice_state.h    what both sides share: open files, predictions, the channel, stop and end
 *   slice_library.h  variables of the C library
 *   slice_trace.h    FORETELL_SLICE_TRACE: both sequences of accesses, a line each
 *   slice_early.h    the program before it has a slice: counting, and whether one would be worth its start
 *   slice_real.h     the program's side: do the call, count it, compare it with the prediction
 *   slice_changes.h  what the program writes to files that it reads
 *   slice_real_stream.h  the same of streams
 *   slice_mapped.h   the same of mapped memory
 *   slice_service.h  disclosing to the service, if there is one
 *   slice_device.h   where the slice's files lie, and what the device there is like
 *   slice_queue.h    the prefetch queue: which request is served when, and how
 *   slice_worth.h    whether the slice is worth what it costs
 *   slice_predict.h  the slice's side: own offsets, return values from sizes, predictions
 *   slice_written.h  reading what the program has written: waiting for it
 *   slice_made.h     files that the program makes and opens again: waiting for it
 *   slice_open.h     opening and closing in the slice
 *   slice_descriptor.h  the slice's calls on descriptors
 *   slice_stream.h   the same for streams: fopen to fscanf
 *   slice_channel.h  mapped memory, values and signals from the program
 *   slice_input.h    standard input, read ahead in what the program shows of it
 *   slice_identity.h who the program is, and whether it still is
 *   slice_start.h    the slice as a process or a thread, its end, statistics
 *   slice_begin.h    the begin of main
 *
 * Environment (set-user-ID programs have no slice):
 *
 *   FORETELL_SLICE=fork|thread|off     how the slice runs; fork if unset
 *   FORETELL_SLICE_SINK=auto|readahead the service if it is there, or never; auto if unset
 *   FORETELL_SOCKET=PATH               where the service is
 *   FORETELL_SLICE_TRACE=FILE          both sequences; at its exit the program then waits for the slice
 *   FORETELL_SLICE_STATS=FILE|stderr   one line of JSON at exit, appended
 *   FORETELL_SLICE_QUEUE=N             Queue_Threshold, in accesses
 *   FORETELL_SLICE_TIME_MS=N           Time_Threshold
 *   FORETELL_SLICE_BUDGET_MIB=N        most bytes prefetched and not yet used
 *   FORETELL_SLICE_MEMORY_MIB=N        most bytes that the slice allocates
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "foretell_slice.h"

/* What is called a few times in a run, or makes system calls for most of its time, is compiled without optimisation: the
 * runtime is compiled for each compiler that comes by, and somebody waits for it. */
#if defined(__GNUC__) && !defined(__clang__)
#define SELDOM _Pragma("GCC push_options") _Pragma("GCC optimize(\"O0\")")
#define OFTEN _Pragma("GCC pop_options")
#else
#define SELDOM
#define OFTEN
#endif

#include "slice_state.h"
#include "slice_library.h"
#include "slice_trace.h"
#include "slice_early.h"
#include "slice_real.h"
#include "slice_changes.h"
#include "slice_real_stream.h"
#include "slice_mapped.h"
SELDOM
#include "slice_service.h"
#include "slice_device.h"
OFTEN
#include "slice_queue.h"
#include "slice_worth.h"
#include "slice_predict.h"
#include "slice_written.h"
SELDOM
#include "slice_made.h"
#include "slice_open.h"
OFTEN
#include "slice_descriptor.h"
#include "slice_stream.h"
#include "slice_channel.h"
#include "slice_input.h"
SELDOM
#include "slice_identity.h"
#include "slice_start.h"
OFTEN
#include "slice_begin.h"
