/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The few fields of kernel structures that the programs read. The names are the kernel's, the places are
 * not: the loader moves every access to where the running kernel has the field (CO-RE).
 */
#ifndef FORETELL_KERNEL_H
#define FORETELL_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct user_namespace {
	int level;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct user_namespace *s_user_ns;
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	long long i_size;
	u32 i_generation;
};

struct address_space {
	struct inode *host;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long _flags_1; /* the order is in the low byte, since Linux 6.6 */
	u8 _folio_order;        /* before */
};

struct file {
	struct address_space *f_mapping;
	struct inode *f_inode;
};

struct vm_area_struct {
	struct file *vm_file;
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct kiocb {
	struct file *ki_filp;
	long long ki_pos;
};

struct iov_iter {
	unsigned long count;
};

struct signal_live {
	int counter;
};

struct signal_struct {
	struct signal_live live;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct pid;

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	unsigned int __state;
	u32 in_iowait : 1;
	struct signal_struct *signal;
	struct files_struct *files;
	char comm[16];
};

struct bvec_iter {
	u32 bi_size;
} __attribute__((packed));

struct bio {
	u32 bi_opf;
	u16 bi_flags;
	struct bvec_iter bi_iter;
};

struct linux_binprm;

/* A process's number in one pid namespace. They are read whole, one of an array: the kernel's have this size, too. */
struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one a namespace, from the machine's own to the process's, level + 1 of them */
};

#pragma clang attribute pop

enum pageflags {
	PG_head = 6,
};

/* include/uapi/linux/stat.h */
#define S_IFMT 00170000
#define S_IFREG 0100000

/* enum vm_fault_reason of include/linux/mm_types.h: a page was mapped. */
#define VM_FAULT_NOPAGE 0x100

/* include/uapi/linux/magic.h */
#define BTRFS_SUPER_MAGIC 0x9123683e

/* include/linux/blk_types.h: the operation is in the low 8 bits of bi_opf, and 0 is a read. The flag's
 * enumeration has no name by which the loader could find it; it has had this value since Linux 5.2. */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define BIO_CLONED 1

#endif
