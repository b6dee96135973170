// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Watches the page cache for a set of processes and a set of files.
 *
 * Every program first asks the cheapest question that lets it leave, because each runs for everybody on
 * the machine. For reads that is whether the current process is tracked: one bit of a table over all
 * process numbers. Then whether the file is managed, ignored, or not known yet. What is left is written to
 * a ring that user space reads; a full ring loses the record and counts it, nobody ever waits.
 *
 * Waking the reader costs more than everything else here, so records are written without it, except for
 * those on which somebody may want to act at once: and then only if the reader has drained the ring since
 * the last wake-up (control.wake_wanted), so that a readahead of 32 folios wakes it once.
 *
 * Tracked processes are kept here and not in user space so that a child is tracked from its first
 * instruction on.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "subject.h"
#include "trust.h"

/* Set by the loader. */
const volatile u32 page_shift = 12;
/* The observer's pid namespace, by the number of its inode; 0 when that is the machine's own. */
const volatile u32 pid_namespace = 0;
/* The kernel's numbers of two of its types, for less_trusted(). */
const volatile u32 address_space_type = 0;
const volatile u32 folio_type = 0;

/* Pid namespaces that may lie between the observer's and a process's, and one: containers in containers. */
#define NESTED_MAX 8

/* A bit for each process number; 2^22 is the kernel's own limit (PID_MAX_LIMIT). */
#define PROCESS_NUMBERS (1u << 22)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROCESS_NUMBERS / 64);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, u64);
} tracked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct control);
} control SEC(".maps");

/* An enum verdict by file. One map for both verdicts, because a second lookup is a tenth of what all of
 * this may cost. The table of buckets is there from the start: 16 bytes an entry. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct file_key);
	__type(value, u8);
} files SEC(".maps");

/* By tgid: the tracked processes, and the observer's own for its prefetches. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, u32);
	__type(value, struct account);
} accounts SEC(".maps");

/* By tid: when a thread of a tracked process went to sleep for I/O. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, u32);
	__type(value, u64);
} waits SEC(".maps");

/* Records since the last wake-up, for control.wake_every. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} written SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

static __always_inline struct control *get_control(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&control, &zero);
}

/*
 * Processes are known by the numbers that the observer sees. In a container's pid namespace those are not the kernel's:
 * a process has a number there if it is in that namespace or in one below, and 0 stands for all others, as nobody's
 * process is 0. Threads are only told apart, so their numbers stay the kernel's.
 */
static __always_inline u32 number_there(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	void *numbers = __builtin_preserve_access_index(&pid->numbers);
	u32 level = BPF_CORE_READ(pid, level), i;

	for (i = 0; i < NESTED_MAX && level > 0; i++, level--) {
		struct upid number = {};

		if (bpf_probe_read_kernel(&number, sizeof(number), numbers + level * sizeof(number)))
			return 0;
		if (BPF_CORE_READ(number.ns, ns.inum) == pid_namespace)
			return number.nr;
	}
	return 0;
}

static __always_inline u32 tgid_of(struct task_struct *task)
{
	return pid_namespace ? number_there(task) : (u32)task->tgid;
}

/* The current process in the upper half, the thread in the lower one. */
static __always_inline u64 who_is_it(void)
{
	u64 who = bpf_get_current_pid_tgid();

	if (pid_namespace)
		who = (u64)number_there(bpf_get_current_task_btf()) << 32 | (u32)who;
	return who;
}

static __always_inline u64 *tracked_word(u32 tgid)
{
	u32 word = tgid / 64;
	return bpf_map_lookup_elem(&tracked, &word);
}

static __always_inline bool is_tracked(u32 tgid)
{
	u64 *bits = tracked_word(tgid);

	/* Number 0 is that of all processes that the observer cannot see. */
	return tgid && bits && (*bits >> (tgid % 64) & 1);
}

/* How soon the reader must hear of a record. */
enum urgency {
	EVERY_SO_MANY, /* with every wake_every-th record of a CPU */
	SPACED,        /* at once, but wake_spacing_ns after the last such record */
	AT_ONCE,
};

/*
 * Asked when the record is reserved and before it is submitted. The exchange is a full barrier, as is the
 * reader's when it sets the flag: either the reader sees the reserved record before it sleeps, or we see
 * the flag.
 */
static __always_inline u64 wake_flags(enum urgency urgency)
{
	struct control *shared = get_control();

	if (!shared)
		return BPF_RB_NO_WAKEUP;
	if (urgency == EVERY_SO_MANY) {
		u32 zero = 0, every = shared->wake_every;
		u32 *count;

		if (!every)
			return BPF_RB_NO_WAKEUP;
		count = bpf_map_lookup_elem(&written, &zero);
		if (!count || ++*count < every)
			return BPF_RB_NO_WAKEUP;
		*count = 0;
	}
	/* A wake-up costs the program microseconds, most of all in a virtual machine: an interrupt to another CPU
	 * leaves it. Two CPUs that come here at once may both wake, which is harmless. */
	if (urgency == SPACED && shared->wake_spacing_ns) {
		u64 now = bpf_ktime_get_ns();

		if (now - shared->woken_ns < shared->wake_spacing_ns)
			return BPF_RB_NO_WAKEUP;
		shared->woken_ns = now;
	}
	return __sync_lock_test_and_set(&shared->wake_wanted, 0) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline void count_lost(void)
{
	struct control *shared = get_control();

	if (shared)
		__sync_fetch_and_add(&shared->lost_events, 1);
}

/* A record about a process. */
static __always_inline void emit(u32 kind, u32 tgid, u32 tid, u64 first, u64 second, enum urgency urgency)
{
	struct event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

	if (!event) {
		count_lost();
		return;
	}
	event->ino = first;
	event->first_page = second;
	event->dev = 0;
	event->tgid = tgid;
	event->tid = tid;
	event->packed = kind;
	bpf_ringbuf_submit(event, wake_flags(urgency));
}

struct subject {
	struct inode *inode;
	struct file_key key;
};

static __always_inline bool find_subject(struct address_space *mapping, struct subject *subject)
{
	subject->inode = mapping ? mapping->host : NULL;
	if (!subject->inode)
		return false;
	subject->key.ino = subject->inode->i_ino;
	subject->key.dev = subject->inode->i_sb->s_dev;
	if (subject->inode->i_sb->s_magic == BTRFS_SUPER_MAGIC) {
		struct control *shared = get_control();
		/* As a number: the verifier lets nobody go from a known structure to an offset that it cannot see. */
		struct inode *inode = BPF_CORE_READ(mapping, host);

		subject->key.dev = shared ? subvolume_device(inode, &shared->btrfs) : 0;
		/* Told under another device number it would be taken for another subvolume's file. */
		return subject->key.dev != 0;
	}
	return true;
}

static __always_inline enum verdict verdict_on(struct subject *subject)
{
	u8 *verdict = bpf_map_lookup_elem(&files, &subject->key);

	return verdict ? *verdict : VERDICT_NONE;
}

/* User space is only asked for a verdict on regular files. */
static __always_inline bool is_regular(struct subject *subject)
{
	return (subject->inode->i_mode & S_IFMT) == S_IFREG;
}

static __always_inline void fill(struct event *event, u32 kind, struct subject *subject, u64 who, u64 first_page,
				 u64 argument)
{
	if (argument > EVENT_ARGUMENT_MAX)
		argument = EVENT_ARGUMENT_MAX;
	event->ino = subject->key.ino;
	event->first_page = first_page;
	event->dev = subject->key.dev;
	event->tgid = who >> 32;
	event->tid = who;
	event->packed = kind | argument << EVENT_ARGUMENT_SHIFT;
}

/* A record about a file; `argument` is a number of pages or an order. */
static __always_inline void emit_file(u32 kind, struct subject *subject, u64 who, u64 first_page, u64 argument,
				      bool known, enum urgency urgency)
{
	if (known) {
		struct event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

		if (!event) {
			count_lost();
			return;
		}
		fill(event, kind, subject, who, first_page, argument);
		bpf_ringbuf_submit(event, wake_flags(urgency));
	} else {
		struct unknown_event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

		if (!event) {
			count_lost();
			return;
		}
		fill(&event->event, kind, subject, who, first_page, argument);
		event->generation = subject->inode->i_generation;
		event->unused = 0;
		bpf_ringbuf_submit(event, wake_flags(urgency));
	}
}

/* The current process referenced pages first..=last of a file; clipped to the file's size, because a
 * program may ask for more than there is. */
static __always_inline void reference(u32 kind, struct address_space *mapping, u64 first, u64 last)
{
	u64 who = who_is_it();
	struct subject subject;
	enum verdict verdict;
	long long size;
	u64 end;

	if (!is_tracked(who >> 32))
		return;
	mapping = less_trusted(mapping, address_space_type);
	if (!find_subject(mapping, &subject))
		return;
	verdict = verdict_on(&subject);
	if (verdict == VERDICT_IGNORED || (verdict == VERDICT_NONE && !is_regular(&subject)))
		return;
	size = subject.inode->i_size;
	if (size <= 0)
		return;
	end = ((u64)size - 1) >> page_shift;
	if (last > end)
		last = end;
	if (first > last)
		return;
	emit_file(kind, &subject, who, first, last - first + 1, verdict == VERDICT_MANAGED,
		  EVERY_SO_MANY);
}

SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(foretell_read, struct address_space *mapping, unsigned long index, unsigned long last_index)
{
	reference(EVENT_READ, mapping, index, last_index);
	return 0;
}

/*
 * For kernels without that tracepoint (before 6.12), of which nothing is loaded otherwise. At the end of the call it is
 * known what was read: the position is behind it.
 */
static __always_inline void referenced_up_to(struct address_space *mapping, long long end, long long bytes)
{
	if (bytes > 0 && end >= bytes)
		reference(EVENT_READ, mapping, (end - bytes) >> page_shift, (end - 1) >> page_shift);
}

SEC("fexit/filemap_read")
int BPF_PROG(foretell_read_end, struct kiocb *iocb, struct iov_iter *iter, long already_read, long result)
{
	/* What the file system has read past the page cache before counts as read here (direct I/O that is short). */
	referenced_up_to(iocb->ki_filp->f_mapping, iocb->ki_pos, result - already_read);
	return 0;
}

/* From 6.5 on splice(2) and sendfile(2) go past filemap_read. */
SEC("fexit/filemap_splice_read")
int BPF_PROG(foretell_splice_end, struct file *in, long long *position, void *pipe, unsigned long length,
	     unsigned int flags, long result)
{
	long long end = 0;

	if (!bpf_probe_read_kernel(&end, sizeof(end), position))
		referenced_up_to(in->f_mapping, end, result);
	return 0;
}

SEC("fentry/filemap_fault")
int BPF_PROG(foretell_fault_enter, struct vm_fault *fault)
{
	unsigned long index = fault->pgoff;

	reference(EVENT_FAULT, fault->vma->vm_file->f_mapping, index, index);
	return 0;
}

/* If it has mapped nothing, filemap_fault comes next. */
SEC("fexit/filemap_map_pages")
int BPF_PROG(foretell_map_end, struct vm_fault *fault, unsigned long first, unsigned long last, unsigned int result)
{
	if (result & VM_FAULT_NOPAGE)
		reference(EVENT_MAP_PAGES, fault->vma->vm_file->f_mapping, first, last);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(foretell_fault, struct address_space *mapping, unsigned long index)
{
	reference(EVENT_FAULT, mapping, index, index);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(foretell_map, struct address_space *mapping, unsigned long first, unsigned long last)
{
	reference(EVENT_MAP_PAGES, mapping, first, last);
	return 0;
}

static __always_inline u32 folio_order(struct folio *folio)
{
	/* The flags are the first word of a folio on every kernel, under changing names and types. */
	unsigned long flags = *(unsigned long *)folio;

	if (!(flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1))
		return 0;
	if (bpf_core_field_exists(folio->_folio_order))
		return folio->_folio_order;
	return folio->_flags_1 & 0xff;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(foretell_add, struct folio *folio)
{
	u64 who = who_is_it();
	bool by_tracked = is_tracked(who >> 32);
	struct subject subject;
	enum verdict verdict;
	u64 argument;

	folio = less_trusted(folio, folio_type);
	if (!find_subject(folio->mapping, &subject))
		return 0;
	verdict = verdict_on(&subject);
	if (verdict == VERDICT_IGNORED || (verdict == VERDICT_NONE && !(by_tracked && is_regular(&subject))))
		return 0;
	argument = folio_order(folio);
	/* Nothing is read from beyond the end: the size grows when the data is there. */
	if (by_tracked && (u64)folio->index << page_shift >= (u64)subject.inode->i_size)
		argument |= EVENT_APPENDED;
	emit_file(EVENT_ADDED, &subject, who, folio->index, argument, verdict == VERDICT_MANAGED,
		  by_tracked ? SPACED : EVERY_SO_MANY);
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(foretell_remove, struct folio *folio)
{
	struct subject subject;

	folio = less_trusted(folio, folio_type);
	if (!find_subject(folio->mapping, &subject) || verdict_on(&subject) != VERDICT_MANAGED)
		return 0;
	emit_file(EVENT_REMOVED, &subject, who_is_it(), folio->index, folio_order(folio), true,
		  EVERY_SO_MANY);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(foretell_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_tgid = tgid_of(parent), tgid;
	struct account empty = {};
	u64 *bits;

	if (child->tgid == parent->tgid || !is_tracked(parent_tgid))
		return 0;
	tgid = tgid_of(child);
	bits = tracked_word(tgid);
	/* A child that is nested deeper than is looked is not followed. */
	if (!tgid || !bits)
		return 0;
	__sync_fetch_and_or(bits, 1ull << (tgid % 64));
	if (bpf_map_update_elem(&accounts, &tgid, &empty, BPF_ANY)) {
		struct control *shared = get_control();

		if (shared)
			__sync_fetch_and_add(&shared->accounts_overflow, 1);
	}
	emit(EVENT_FORKED, parent_tgid, tgid, 0, 0, AT_ONCE);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(foretell_exec, struct task_struct *task)
{
	u32 tgid = tgid_of(task);
	u64 *comm;

	if (!is_tracked(tgid))
		return 0;
	comm = (u64 *)task->comm;
	emit(EVENT_EXEC, tgid, task->pid, comm[0], comm[1], AT_ONCE);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(foretell_exit, struct task_struct *task)
{
	u32 tgid = tgid_of(task);
	u64 bit = 1ull << (tgid % 64);
	struct account *account;
	u64 *bits, read_bytes = 0, wait_ns = 0;

	if (!is_tracked(tgid) || BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	/* When two threads leave at once both may see that none lives; one of them clears the bit. */
	bits = tracked_word(tgid);
	if (!bits || !(__sync_fetch_and_and(bits, ~bit) & bit))
		return 0;
	account = bpf_map_lookup_elem(&accounts, &tgid);
	if (account) {
		read_bytes = account->device_read_bytes;
		wait_ns = account->wait_ns;
		bpf_map_delete_elem(&accounts, &tgid);
	}
	emit(EVENT_EXITED, tgid, tgid, read_bytes, wait_ns, AT_ONCE);
	return 0;
}

static __always_inline void fall_asleep(struct task_struct *task)
{
	u32 tid = task->pid;
	u64 now;

	if (!is_tracked(tgid_of(task)))
		return;
	now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&waits, &tid, &now, BPF_ANY)) {
		struct control *shared = get_control();

		if (shared)
			__sync_fetch_and_add(&shared->waits_overflow, 1);
	}
}

static __always_inline void run_again(struct task_struct *task)
{
	u32 tid = task->pid, tgid;
	struct account *account;
	struct control *shared;
	u64 *since, wait_ns;

	since = bpf_map_lookup_elem(&waits, &tid);
	if (!since)
		return;
	wait_ns = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&waits, &tid);
	tgid = tgid_of(task);
	if (!is_tracked(tgid))
		return;
	account = bpf_map_lookup_elem(&accounts, &tgid);
	if (account)
		__sync_fetch_and_add(&account->wait_ns, wait_ns);
	shared = get_control();
	if (shared)
		__sync_fetch_and_add(&shared->wait_ns, wait_ns);
	emit(EVENT_WAITED, tgid, tid, 0, wait_ns, EVERY_SO_MANY);
}

/* A task keeps in_iowait while it sleeps in io_schedule(), so that one bit answers for both sides. */
static __always_inline void switched(bool preempted, struct task_struct *prev, struct task_struct *next, u32 prev_state)
{
	if (BPF_CORE_READ_BITFIELD(prev, in_iowait) && !preempted && prev_state)
		fall_asleep(prev);
	if (BPF_CORE_READ_BITFIELD(next, in_iowait))
		run_again(next);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(foretell_switch, bool preempted, struct task_struct *prev, struct task_struct *next, u32 prev_state)
{
	switched(preempted, prev, next, prev_state);
	return 0;
}

/* Before 5.18 the state is not among the arguments. Who is woken just now is seen running already, and his wait not
 * measured: it was none to speak of. */
SEC("tp_btf/sched_switch")
int BPF_PROG(foretell_switch_3, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	switched(preempted, prev, next, prev->__state);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(foretell_bio, struct bio *bio)
{
	struct account *account;
	struct control *shared;
	u32 tgid, bytes;

	/* The clones that stacked devices (dm, md) make of a bio that was counted are not counted again. */
	if ((bio->bi_opf & REQ_OP_MASK) != REQ_OP_READ || bio->bi_flags >> BIO_CLONED & 1)
		return 0;
	tgid = who_is_it() >> 32;
	account = bpf_map_lookup_elem(&accounts, &tgid);
	if (!account && !is_tracked(tgid))
		return 0;
	bytes = bio->bi_iter.bi_size;
	if (account)
		__sync_fetch_and_add(&account->device_read_bytes, bytes);
	shared = get_control();
	if (shared)
		__sync_fetch_and_add(&shared->device_read_bytes, bytes);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
