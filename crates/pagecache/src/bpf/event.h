/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the BPF programs and the loader agree on: the records of the ring and the shared control block.
 * The Rust side is src/observe/record.rs and shared.rs. The compiler checks the LAYOUT lines here; the tests
 * over there read them and the enumerations, and compare.
 */
#ifndef FORETELL_EVENT_H
#define FORETELL_EVENT_H

#define LAYOUT(type, field, offset) \
	_Static_assert(__builtin_offsetof(struct type, field) == offset, #type "." #field)
#define LAYOUT_SIZE(type, size) _Static_assert(sizeof(struct type) == size, #type)

/* Kinds, in the low byte of event.packed. */
enum event_kind {
	EVENT_READ = 1,
	EVENT_FAULT = 2,
	EVENT_MAP_PAGES = 3,
	EVENT_ADDED = 4,
	EVENT_REMOVED = 5,
	EVENT_FORKED = 6,
	EVENT_EXEC = 7,
	EVENT_EXITED = 8,
	EVENT_WAITED = 9,
};

/*
 * One record. For files: who, which file, which pages. The others use the fields so:
 *   FORKED  tgid is the parent, tid the child's tgid
 *   EXEC    ino and first_page hold the 16 bytes of the new command name
 *   EXITED  ino holds the bytes read from devices, first_page the nanoseconds waited, over its life
 *   WAITED  first_page holds the nanoseconds
 */
struct event {
	unsigned long long ino;
	unsigned long long first_page;
	unsigned int dev; /* the kernel's dev_t: major << 20 | minor */
	unsigned int tgid;
	unsigned int tid;
	unsigned int packed; /* kind, and from bit 8 the number of pages or the order of the folio */
};
LAYOUT(event, ino, 0);
LAYOUT(event, first_page, 8);
LAYOUT(event, dev, 16);
LAYOUT(event, tgid, 20);
LAYOUT(event, tid, 24);
LAYOUT(event, packed, 28);
LAYOUT_SIZE(event, 32);

/* With the order of an added folio: a tracked process adds it beyond the end of the file, by writing it. */
enum event_flag {
	EVENT_APPENDED = 256,
};

#define EVENT_ARGUMENT_SHIFT 8
#define EVENT_ARGUMENT_MAX 0xffffffu

/* The longer record of a file that is neither managed nor ignored. */
struct unknown_event {
	struct event event;
	unsigned int generation;
	unsigned int unused;
};
LAYOUT(unknown_event, generation, 32);
LAYOUT_SIZE(unknown_event, 40);

/* What user space said about a file; absent from the map: nothing yet. */
enum verdict {
	VERDICT_NONE = 0,
	VERDICT_MANAGED = 1,
	VERDICT_IGNORED = 2,
};

struct file_key {
	unsigned long long dev;
	unsigned long long ino;
};
LAYOUT(file_key, dev, 0);
LAYOUT(file_key, ino, 8);
LAYOUT_SIZE(file_key, 16);

/* What a tracked process cost so far. */
struct account {
	unsigned long long device_read_bytes;
	unsigned long long wait_ns;
};
LAYOUT(account, device_read_bytes, 0);
LAYOUT(account, wait_ns, 8);
LAYOUT_SIZE(account, 16);

/*
 * The block that both sides map. The first line is read on the hot path and seldom written, the second is
 * written at wake-ups, the third counts what rarely happens: so that none slows the others down.
 */
struct control {
	unsigned int wake_every; /* wake the reader after so many records of one CPU; 0: never for that */
	unsigned int unused_1[15];
	unsigned int wake_wanted; /* set by the reader when it has drained the ring, cleared by a wake-up */
	unsigned int unused_2[15];
	unsigned long long lost_events;
	unsigned long long accounts_overflow;
	unsigned long long waits_overflow;
	unsigned long long device_read_bytes; /* of all tracked processes and the observer's own */
	unsigned long long wait_ns;           /* of all tracked processes */
	unsigned long long unused_3[3];
};
LAYOUT(control, wake_every, 0);
LAYOUT(control, wake_wanted, 64);
LAYOUT(control, lost_events, 128);
LAYOUT(control, accounts_overflow, 136);
LAYOUT(control, waits_overflow, 144);
LAYOUT(control, device_read_bytes, 152);
LAYOUT(control, wait_ns, 160);
LAYOUT_SIZE(control, 192);

#endif
