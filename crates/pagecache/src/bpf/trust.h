/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
#ifndef FORETELL_TRUST_H
#define FORETELL_TRUST_H

#include "kernel.h"

/*
 * The same pointer, which the verifier trusts less. For each pointer that is read by way of a trusted one, on each path, it
 * goes through all of the kernel's 150,000 types, up to four times, to find out whether what was read can be trusted as well
 * (btf_nested_type_is_trusted in kernel/bpf/btf.c, since Linux 6.2): that took longer than all else that a load takes, and no
 * program of ours needs it. The number stands for bpf_rdonly_cast(), which becomes a move: the loader puts the kernel's own
 * in its place, or a move where the kernel does not have it.
 */
static void *(*const less_trusted)(const void *pointer, u32 type) = (void *)0x7fffff01;

#endif
