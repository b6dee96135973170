//! Where structures of the running kernel have their members: the little of its type information (BTF,
//! `Documentation/bpf/btf.rst`) that the loader of the BPF programs does not do, as a file system's types lie in its
//! module (`/sys/kernel/btf/MODULE`).

use std::path::Path;

use crate::observe::kernel_types::Bytes;

/// Bytes of the header that are read (`struct btf_header` of `include/uapi/linux/btf.h`).
const HEADER_BYTES: usize = 24;
/// `BTF_MAGIC`.
const MAGIC: u16 = 0xeb9f;

/// Where btrfs keeps the device number of a subvolume: `struct btrfs_places` of `src/bpf/event.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BtrfsPlaces {
    /// Bytes from `btrfs_inode.vfs_inode` to `btrfs_inode.root`.
    pub(crate) root: i32,
    /// Bytes from the start of `btrfs_root` to its `anon_dev`.
    pub(crate) anon_dev: u32,
}

impl BtrfsPlaces {
    /// Those of the running kernel; `None` when it has no btrfs (its module is not loaded), or does not describe it.
    pub(crate) fn of_this_kernel() -> Option<BtrfsPlaces> {
        // There from the moment on that the file system can be mounted.
        if !Path::new("/sys/fs/btrfs").exists() {
            return None;
        }
        let kernel = Bytes::of("vmlinux").ok()?;
        let kernel = Types::parse(&kernel, &[])?;
        BtrfsPlaces::within(&kernel).or_else(|| {
            let module = Bytes::of("btrfs").ok()?;
            BtrfsPlaces::within(&Types::parse(&module, kernel.strings)?)
        })
    }

    /// Those of a kernel that describes itself by `bytes`, where the two structures begin so many bytes after the first type.
    pub(crate) fn at(bytes: &[u8], [inode, root]: [usize; STRUCTURES.len()]) -> Option<BtrfsPlaces> {
        let types = Types::parse(bytes, &[])?;
        BtrfsPlaces::between(types.members_at(inode, INODE)?, types.members_at(root, ROOT)?)
    }

    fn within(types: &Types<'_>) -> Option<BtrfsPlaces> {
        let [inode, root] = STRUCTURES;
        BtrfsPlaces::between(types.members(inode, INODE)?, types.members(root, ROOT)?)
    }

    fn between([inode, root]: [u32; 2], [anon_dev]: [u32; 1]) -> Option<BtrfsPlaces> {
        let root = i32::try_from(i64::from(root) - i64::from(inode)).ok()?;
        Some(BtrfsPlaces { root, anon_dev })
    }
}

/// The structures in which they are, and the members that are asked for.
pub(crate) const STRUCTURES: [&str; 2] = ["btrfs_inode", "btrfs_root"];
const INODE: [&str; 2] = ["vfs_inode", "root"];
const ROOT: [&str; 1] = ["anon_dev"];

/// Type information, where it lies.
struct Types<'a> {
    types: &'a [u8],
    /// A module's names are counted from the end of the kernel's.
    of_kernel: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Types<'a> {
    /// Those in `bytes`. `of_kernel` are the names of the kernel, for a module.
    fn parse(bytes: &'a [u8], of_kernel: &'a [u8]) -> Option<Types<'a>> {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| header[at + i])) as usize;
        if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
            return None;
        }
        let part = |offset: usize, length: usize| bytes.get(number(4).checked_add(offset)?..)?.get(..length);
        let (types, strings) = (part(number(8), number(12))?, part(number(16), number(20))?);
        Some(Types { types, of_kernel, strings })
    }

    fn is_named(&self, offset: usize, name: &str) -> bool {
        let rest = match offset.checked_sub(self.of_kernel.len()) {
            Some(own) => self.strings.get(own..),
            None => self.of_kernel.get(offset..),
        };
        let rest = rest.unwrap_or_default().strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.types.get(at..)?.first_chunk::<4>()?))
    }

    /// The same of the structure that begins here.
    fn members_at<const N: usize>(&self, at: usize, names: [&str; N]) -> Option<[u32; N]> {
        let info = self.word(at + 4)?;
        let (count, body) = ((info & 0xffff) as usize, at + 12);
        let mut places = [0; N];
        for (into, wanted) in places.iter_mut().zip(names) {
            let mut members = (0..count).map(|member| body + 12 * member);
            let found = members
                .find(|&member| self.word(member).is_some_and(|name| self.is_named(name as usize, wanted)))?;
            let bits = self.word(found + 8)?;
            // With this flag of the structure the upper eight bits are the width of a bit field.
            *into = if info >> 31 == 1 { bits & 0xff_ffff } else { bits } / 8;
        }
        Some(places)
    }

    /// How many bytes from its start a structure has each of these members; `None` when it lacks one, or there is no
    /// such structure.
    fn members<const N: usize>(&self, structure: &str, names: [&str; N]) -> Option<[u32; N]> {
        const STRUCT: u32 = 4;
        let mut at = 0;
        while let (Some(name), Some(info)) = (self.word(at), self.word(at + 4)) {
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let body = at + 12;
            if kind == STRUCT && self.is_named(name as usize, structure) {
                return self.members_at(at, names);
            }
            // What follows the three words that all types begin with (`enum` of `include/uapi/linux/btf.h`).
            at = body
                + match kind {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    4 | 5 | 15 | 19 => 12 * count,
                    6 | 13 => 8 * count,
                    _ => 0,
                };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type information with one integer and one structure, of which the names are given as offsets.
    fn information(structure: u32, members: &[(u32, u32)], strings: &[u8]) -> Vec<u8> {
        let mut types: Vec<u32> = vec![0, 1 << 24, 4, 32];
        types.extend([structure, 4 << 24 | members.len() as u32, 64]);
        members.iter().for_each(|&(name, bits)| types.extend([name, 1, bits]));
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_ne_bytes).collect();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let (length, strings_length) = (types.len() as u32, strings.len() as u32);
        for word in [HEADER_BYTES as u32, 0, length, length, strings_length] {
            bytes.extend(word.to_ne_bytes());
        }
        [&bytes[..], &types, strings].concat()
    }

    #[test]
    fn members_are_found_by_name_also_where_a_module_uses_names_of_the_kernels() {
        let kernel = information(1, &[(3, 64)], b"\0s\0root\0");
        let kernel = Types::parse(&kernel, &[]).unwrap();
        assert_eq!(kernel.members("s", ["root"]), Some([8]));
        assert_eq!(kernel.members("s", ["roo"]), None);
        // The kernel's names end at 8: the module's own begin there.
        let module = information(8, &[(3, 128), (10, 192)], b"m\0inode\0");
        let module = Types::parse(&module, kernel.strings).unwrap();
        assert_eq!(module.members("m", ["inode", "root"]), Some([24, 16]));
        assert_eq!(module.members("s", ["root"]), None);
    }

    #[test]
    fn what_is_cut_off_or_no_type_information_gives_nothing() {
        let whole = information(1, &[(3, 64)], b"\0s\0root\0");
        for length in 0..whole.len() {
            assert!(Types::parse(&whole[..length], &[]).is_none_or(|t| t.members("s", ["root"]).is_none()));
        }
        assert!(Types::parse(&[0; 64], &[]).is_none());
    }

    #[test]
    fn the_running_kernel_says_where_its_inodes_are() {
        let Ok(bytes) = Bytes::of("vmlinux") else {
            println!("skipped: the_running_kernel_says_where_its_inodes_are: no type information");
            return;
        };
        let types = Types::parse(&bytes, &[]).unwrap();
        assert!(types.members("inode", ["i_sb", "i_ino"]).is_some());
        assert!(types.members("inode", ["no_such_member"]).is_none());
    }
}
