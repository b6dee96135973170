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
 * Where btrfs keeps the device number of a subvolume, bytes: its types may lie in a module, for which the loader
 * moves no accesses. User space fills this in (src/identity/types.rs).
 */
struct btrfs_places {
	int root;               /* from btrfs_inode.vfs_inode to btrfs_inode.root */
	unsigned int anon_dev;  /* from btrfs_root to btrfs_root.anon_dev */
	unsigned int known;     /* 0: not filled in */
};
LAYOUT(btrfs_places, root, 0);
LAYOUT(btrfs_places, anon_dev, 4);
LAYOUT(btrfs_places, known, 8);
LAYOUT_SIZE(btrfs_places, 12);

/* What identify.bpf.c is asked and answers, for one caller at a time. */
struct question {
	struct btrfs_places btrfs;
	unsigned int answered;
	unsigned long long shown_dev; /* of the inode that the descriptor is open on */
	unsigned long long shown_ino;
	unsigned long long dev; /* of the inode that has the pages */
	unsigned long long ino;
	unsigned int generation;
	unsigned int magic;      /* of the file system of that inode */
	unsigned int user_level; /* how deep the user namespace lies that it was mounted in; 0: the machine's own */
	unsigned int unused;
};
LAYOUT(question, btrfs, 0);
LAYOUT(question, answered, 12);
LAYOUT(question, shown_dev, 16);
LAYOUT(question, shown_ino, 24);
LAYOUT(question, dev, 32);
LAYOUT(question, ino, 40);
LAYOUT(question, generation, 48);
LAYOUT(question, magic, 52);
LAYOUT(question, user_level, 56);
LAYOUT_SIZE(question, 64);

/*
 * The block that both sides map. The first line is read on the hot path and seldom written, the second is
 * written at wake-ups, the third counts what rarely happens: so that none slows the others down.
 */
struct control {
	unsigned int wake_every; /* wake the reader after so many records of one CPU; 0: never for that */
	struct btrfs_places btrfs;
	unsigned int wake_spacing_ns; /* so long after a page that woke the reader no other one does */
	unsigned int unused_1[11];
	unsigned int wake_wanted; /* set by the reader when it has drained the ring, cleared by a wake-up */
	unsigned int unused_2;
	unsigned long long woken_ns; /* when a page that was added woke the reader last */
	unsigned int unused_3[12];
	unsigned long long lost_events;
	unsigned long long accounts_overflow;
	unsigned long long waits_overflow;
	unsigned long long device_read_bytes; /* of all tracked processes and the observer's own */
	unsigned long long wait_ns;           /* of all tracked processes */
	unsigned long long unused_4[3];
};
LAYOUT(control, wake_every, 0);
LAYOUT(control, btrfs, 4);
LAYOUT(control, wake_spacing_ns, 16);
LAYOUT(control, wake_wanted, 64);
LAYOUT(control, woken_ns, 72);
LAYOUT(control, lost_events, 128);
LAYOUT(control, accounts_overflow, 136);
LAYOUT(control, waits_overflow, 144);
LAYOUT(control, device_read_bytes, 152);
LAYOUT(control, wait_ns, 160);
LAYOUT_SIZE(control, 192);

#endif
