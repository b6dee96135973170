// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Tells which inode has the pages of a file, and by which device number it is known.
 *
 * On an overlay file system that is not the inode that stat(2) describes, but the one of the layer below. The kernel
 * gives that to whoever maps the file (ovl_mmap, backing_file_mmap): so user space maps a page of it, never touches
 * it, and this program says on which inode the mapping is. That is right for every set of layers, for copied-up and
 * metadata-only copies, and for overlays on overlays, because it is the kernel's own way.
 *
 * It is attached to nothing: user space runs it in its own context (BPF_PROG_TEST_RUN), with the number of one of its
 * descriptors, or with the address of a mapping.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "subject.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct question);
} question SEC(".maps");

static __always_inline struct question *get_question(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&question, &zero);
}

static __always_inline void answer(struct question *question, struct inode *inode)
{
	struct super_block *super = BPF_CORE_READ(inode, i_sb);
	u32 dev = BPF_CORE_READ(super, s_dev);

	question->magic = BPF_CORE_READ(super, s_magic);
	question->user_level = BPF_CORE_READ(super, s_user_ns, level);
	question->ino = BPF_CORE_READ(inode, i_ino);
	question->generation = BPF_CORE_READ(inode, i_generation);
	question->dev = question->magic == BTRFS_SUPER_MAGIC ? subvolume_device(inode, &question->btrfs) : dev;
	question->answered = question->dev != 0;
}

/* args[0] is a descriptor of the calling process. */
SEC("raw_tp/foretell_descriptor")
int foretell_descriptor(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct question *question = get_question();
	u64 number = ctx->args[0];
	struct file *file = NULL;
	struct inode *inode;

	if (!question || number >= BPF_CORE_READ(table, max_fds))
		return 0;
	if (bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + number) || !file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	question->shown_dev = BPF_CORE_READ(inode, i_sb, s_dev);
	question->shown_ino = BPF_CORE_READ(inode, i_ino);
	answer(question, inode);
	return 0;
}

static long on_mapping(struct task_struct *task, struct vm_area_struct *area, void *unused)
{
	struct question *question = get_question();
	struct file *file = area->vm_file;

	if (question && file)
		answer(question, BPF_CORE_READ(file, f_inode));
	return 0;
}

/* args[0] is an address at which the calling process has mapped the file. */
SEC("raw_tp/foretell_mapping")
int foretell_mapping(struct bpf_raw_tracepoint_args *ctx)
{
	bpf_find_vma(bpf_get_current_task_btf(), ctx->args[0], on_mapping, NULL, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
