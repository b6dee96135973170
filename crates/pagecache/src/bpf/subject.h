/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * By which device number a file is known: what stat(2) says of the inode that has the pages. Nearly everywhere
 * that is the superblock's. btrfs has one for each subvolume, and repeats inode numbers in each of them
 * (btrfs_getattr in fs/btrfs/inode.c).
 */
#ifndef FORETELL_SUBJECT_H
#define FORETELL_SUBJECT_H

#include "event.h"
#include "kernel.h"

/* 0 when it cannot be told. */
static __always_inline u32 subvolume_device(struct inode *inode, const struct btrfs_places *places)
{
	void *root = NULL;
	u32 dev = 0;

	if (!places->known)
		return 0;
	if (bpf_probe_read_kernel(&root, sizeof(root), (void *)inode + places->root))
		return 0;
	if (bpf_probe_read_kernel(&dev, sizeof(dev), root + places->anon_dev))
		return 0;
	return dev;
}

#endif
