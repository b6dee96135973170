//! What of the kernel's type information (BTF, `Documentation/bpf/btf.rst`) an object of ours needs.
//!
//! A kernel describes 150,000 types in 6 MB. As structures in memory they take 15 MB and 30 ms, in the memory and at the
//! time of a job that has just begun. Programs of ours look into some dozens of them. So the bytes are gone through once,
//! where they lie, and kept are the types that are named in the object, with those of their members that are, and what these
//! consist of, under new numbers. The places where programs attach are told by their own numbers.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;

use aya::{Btf, Endianness};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::identity::types::{BtrfsPlaces, STRUCTURES};

/// The type information of the kernel and of its modules.
const DIRECTORY: &str = "/sys/kernel/btf";
/// More is not taken in; a distribution's kernel has 8 MiB.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of `struct btf_header` that are read, and of a type without what follows it.
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;
/// `BTF_MAGIC`.
const MAGIC: u16 = 0xeb9f;
/// What separates the name of a type from what an object calls its versions of it.
const FLAVOUR: &str = "___";

/// The kinds of types (`enum` of `include/uapi/linux/btf.h`).
pub(crate) mod kind {
    pub(crate) const INT: u32 = 1;
    pub(crate) const POINTER: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
    pub(crate) const STRUCT: u32 = 4;
    pub(crate) const UNION: u32 = 5;
    pub(crate) const ENUM: u32 = 6;
    pub(crate) const FORWARD: u32 = 7;
    pub(crate) const TYPEDEF: u32 = 8;
    pub(crate) const VOLATILE: u32 = 9;
    pub(crate) const CONST: u32 = 10;
    pub(crate) const RESTRICT: u32 = 11;
    pub(crate) const FUNC: u32 = 12;
    pub(crate) const FUNC_PROTO: u32 = 13;
    pub(crate) const VAR: u32 = 14;
    pub(crate) const DATASEC: u32 = 15;
    pub(crate) const FLOAT: u32 = 16;
    pub(crate) const DECL_TAG: u32 = 17;
    pub(crate) const TYPE_TAG: u32 = 18;
    pub(crate) const ENUM64: u32 = 19;
    /// Those that an object of ours can name.
    pub(crate) const NAMED: [u32; 8] = [INT, STRUCT, UNION, ENUM, FORWARD, TYPEDEF, FLOAT, ENUM64];
}

/// The types that an object needs, and the places that the kernel has.
#[derive(Debug)]
pub(crate) struct KernelTypes {
    /// Under numbers that are not the kernel's.
    needed: Btf,
    /// The kernel's numbers, by the names of their types.
    places: HashMap<String, u32>,
    /// The kernel's numbers of [`TOLD`].
    told: [Option<u32>; TOLD.len()],
    /// Of a btrfs that is no module.
    btrfs: Option<BtrfsPlaces>,
}

/// Structures of which programs are told the kernel's numbers.
const TOLD: [&str; 2] = ["address_space", "folio"];

impl KernelTypes {
    /// Reads what is named in the type information of an object (`named`, as in its section `.BTF`), and which of
    /// `places` there are.
    ///
    /// # Errors
    /// The kernel does not describe its types, or not in a form that is understood.
    pub(crate) fn read(named: &[u8], places: impl Iterator<Item = Place>) -> io::Result<KernelTypes> {
        let bytes = Bytes::of("vmlinux")?;
        KernelTypes::of(&bytes, named, places).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn of(bytes: &[u8], named: &[u8], places: impl Iterator<Item = Place>) -> Option<KernelTypes> {
        let kernel = Types::parse(bytes)?;
        let btrfs = STRUCTURES.map(|name| (name.to_owned(), kind::STRUCT));
        let places = places.map(|place| (place.name_of_type(), place.kind_of_type()));
        let places: Vec<_> = places.chain(btrfs).collect();
        let mut wanted = Wanted::new(Types::parse(named)?.strings, &places);
        let starts = kernel.starts(&mut wanted)?;
        let needed = kernel.only(&starts, &wanted)?;
        let needed = Btf::parse(&needed, Endianness::default()).ok()?;
        let at = |name: &str| Some(kernel.numbered(&starts, *wanted.places.get(name)?)?.at);
        let [inode, root] = STRUCTURES.map(at);
        let btrfs = inode.zip(root).and_then(|(inode, root)| BtrfsPlaces::at(bytes, [inode, root]));
        Some(KernelTypes { needed, places: wanted.places, told: wanted.told, btrfs })
    }

    /// The types.
    pub(crate) fn needed(&self) -> &Btf {
        &self.needed
    }

    /// The kernel's number of a place, if it has it.
    pub(crate) fn place(&self, place: Place) -> Option<u32> {
        self.places.get(&place.name_of_type()).copied()
    }

    /// Where a btrfs that is no module keeps the device numbers of its subvolumes.
    pub(crate) fn btrfs(&self) -> Option<BtrfsPlaces> {
        self.btrfs
    }

    /// The kernel's numbers of `struct address_space` and `struct folio`, if it has both.
    pub(crate) fn told(&self) -> Option<[u32; TOLD.len()]> {
        let [mapping, folio] = self.told;
        Some([mapping?, folio?])
    }
}

/// What the kernel or a module describes: mapped, the kernel's from Linux 6.16 on, or a copy.
pub(crate) enum Bytes {
    Mapped(*mut std::ffi::c_void, usize),
    Copied(Vec<u8>),
}

impl Bytes {
    /// Of the kernel (`vmlinux`) or a module.
    pub(crate) fn of(name: &str) -> io::Result<Bytes> {
        let file = File::open(Path::new(DIRECTORY).join(name))?;
        let length = file.metadata()?.len().min(MOST_BYTES) as usize;
        // SAFETY: a new mapping at an address of the kernel's choice, which is read only and lives until drop. What it
        // shows never changes.
        let mapped =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) };
        if let Ok(at) = mapped {
            return Ok(Bytes::Mapped(at, length));
        }
        let mut bytes = Vec::with_capacity(length + 1);
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(Bytes::Copied(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: mapped for reading until drop, and never written to.
            Bytes::Mapped(at, length) => unsafe { std::slice::from_raw_parts(at.cast(), *length) },
            Bytes::Copied(bytes) => bytes,
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Bytes::Mapped(at, length) = *self {
            // SAFETY: it is what was mapped, and no reference outlives `self`.
            let _ = unsafe { munmap(at, length) };
        }
    }
}

/// What is looked for, and what was found of it.
struct Wanted<'a> {
    /// With the kind of the type, where a place is looked for.
    names: HashMap<&'a [u8], Option<u32>>,
    /// How names of functions may begin, which are half of all, and how others may.
    functions: Beginnings,
    others: Beginnings,
    /// Numbers of the types that are named.
    types: Vec<u32>,
    places: HashMap<String, u32>,
    told: [Option<u32>; TOLD.len()],
}

impl<'a> Wanted<'a> {
    fn new(strings: &'a [u8], places: &'a [(String, u32)]) -> Wanted<'a> {
        let mut names = HashMap::new();
        for name in strings.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let end = name.windows(FLAVOUR.len()).position(|part| part == FLAVOUR.as_bytes());
            names.insert(&name[..end.unwrap_or(name.len())], None);
        }
        for (name, of_kind) in places {
            names.insert(name.as_bytes(), Some(*of_kind));
        }
        let is_function = |of_kind: &Option<u32>| *of_kind == Some(kind::FUNC);
        let beginnings = |functions| {
            Beginnings::of(
                names.iter().filter(|(_, kind)| is_function(kind) == functions).map(|(name, _)| *name),
            )
        };
        let (functions, others) = (beginnings(true), beginnings(false));
        let (types, places, told) = (Vec::new(), HashMap::new(), Default::default());
        Wanted { names, functions, others, types, places, told }
    }

    /// Whether the object has this name.
    fn knows(&self, strings: &[u8], name: usize) -> bool {
        let Some(rest) = strings.get(name..).filter(|rest| self.others.has(rest)) else { return false };
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        self.names.contains_key(&rest[..end])
    }

    /// Takes note of the type `number`, if it is one of those.
    fn look(&mut self, number: u32, of_kind: u32, strings: &[u8], name: usize) {
        let beginnings = if of_kind == kind::FUNC { &self.functions } else { &self.others };
        let Some(rest) = strings.get(name..).filter(|rest| beginnings.has(rest)) else { return };
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        let name = &rest[..end];
        match self.names.get(name) {
            Some(&Some(wanted)) if wanted == of_kind => {
                self.places.entry(String::from_utf8_lossy(name).into_owned()).or_insert(number);
            }
            Some(None) if kind::NAMED.contains(&of_kind) => {
                self.types.push(number);
                if of_kind == kind::STRUCT
                    && let Some(at) = TOLD.iter().position(|told| told.as_bytes() == name)
                {
                    self.told[at].get_or_insert(number);
                }
            }
            _ => {}
        }
    }
}

/// How names may begin: nearly none does.
struct Beginnings(Vec<u64>);

impl Beginnings {
    fn of<'a>(names: impl Iterator<Item = &'a [u8]>) -> Beginnings {
        let mut bits = vec![0; (1 << 16) / 64];
        for name in names {
            let number = beginning(name);
            bits[number / 64] |= 1 << (number % 64);
        }
        Beginnings(bits)
    }

    fn has(&self, name: &[u8]) -> bool {
        let number = beginning(name);
        self.0[number / 64] >> (number % 64) & 1 == 1
    }
}

/// The first four bytes of a name, as a number of 16 bits.
fn beginning(name: &[u8]) -> usize {
    let word = u32::from_le_bytes(name.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 4];
        word[..name.len()].copy_from_slice(name);
        word
    }));
    // What ends within has nothing behind it: the lowest byte that is 0 borrows.
    let ends = word.wrapping_sub(0x0101_0101) & !word & 0x8080_8080;
    let word = if ends == 0 { word } else { word & (1_u32 << (ends.trailing_zeros() & !7)).wrapping_sub(1) };
    (word.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// Of so many types it is kept where the first one begins.
const STRIDE: usize = 16;

/// Type information, where it lies.
struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

/// One type.
#[derive(Clone, Copy)]
struct Head {
    name: usize,
    info: u32,
    /// Its size, or the type that it refers to.
    refers: u32,
    at: usize,
}

impl Head {
    fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn count(&self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// Bytes that follow the head; `None` of a kind that is not known.
    fn tail_bytes(&self) -> Option<usize> {
        let count = self.count();
        Some(match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count,
            kind::ENUM | kind::FUNC_PROTO => 8 * count,
            kind::POINTER | kind::FORWARD | kind::TYPEDEF | kind::VOLATILE | kind::CONST => 0,
            kind::RESTRICT | kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
            _ => return None,
        })
    }
}

impl<'a> Types<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Types<'a>> {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| header[at + i])) as usize;
        if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
            return None;
        }
        let part = |offset: usize, length: usize| bytes.get(number(4).checked_add(offset)?..)?.get(..length);
        Some(Types { types: part(number(8), number(12))?, strings: part(number(16), number(20))? })
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.types.get(at..)?.first_chunk::<4>()?))
    }

    fn head(&self, at: usize) -> Option<Head> {
        let words = self.types.get(at..)?.first_chunk::<TYPE_BYTES>()?;
        let word = |at: usize| u32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
        Some(Head { name: word(0) as usize, info: word(4), refers: word(8), at })
    }

    /// Where types begin, from number 1 on, one of [`STRIDE`]; `wanted` is told of all.
    fn starts(&self, wanted: &mut Wanted<'_>) -> Option<Vec<u32>> {
        let mut starts = Vec::with_capacity(self.types.len() / 20 / STRIDE);
        let (mut at, mut number) = (0, 0);
        while at < self.types.len() {
            let head = self.head(at)?;
            if number % STRIDE == 0 {
                starts.push(u32::try_from(at).ok()?);
            }
            number += 1;
            if head.name != 0 {
                wanted.look(u32::try_from(number).ok()?, head.kind(), self.strings, head.name);
            }
            at += TYPE_BYTES + head.tail_bytes()?;
        }
        Some(starts)
    }

    /// The type of this number.
    fn numbered(&self, starts: &[u32], number: u32) -> Option<Head> {
        let number = number.checked_sub(1)? as usize;
        let mut head = self.head(*starts.get(number / STRIDE)? as usize)?;
        for _ in 0..number % STRIDE {
            head = self.head(head.at + TYPE_BYTES + head.tail_bytes()?)?;
        }
        Some(head)
    }

    /// The members of a structure or union, as positions, that are of use: those with a name that the object has, and those
    /// that have none, as some of these may lie in them.
    fn members(&self, head: Head, wanted: &Wanted<'_>) -> impl Iterator<Item = usize> {
        let members = (0..head.count()).map(move |member| head.at + TYPE_BYTES + 12 * member);
        members.filter(move |&at| {
            self.word(at).is_some_and(|name| name == 0 || wanted.knows(self.strings, name as usize))
        })
    }

    /// The same with the types only that are named, and those that these consist of.
    fn only(&self, starts: &[u32], wanted: &Wanted<'_>) -> Option<Vec<u8>> {
        let head = |number: u32| self.numbered(starts, number);
        let mut kept: HashSet<u32> = wanted.types.iter().copied().collect();
        let mut left = wanted.types.clone();
        while let Some(number) = left.pop() {
            let head = head(number)?;
            let parts: Vec<u32> = match head.kind() {
                kind::STRUCT | kind::UNION => {
                    self.members(head, wanted).map(|at| self.word(at + 4)).collect::<Option<_>>()?
                }
                kind::ARRAY => vec![self.word(head.at + TYPE_BYTES)?, self.word(head.at + TYPE_BYTES + 4)?],
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    vec![head.refers]
                }
                // Of what a pointer points to nothing is asked.
                _ => Vec::new(),
            };
            left.extend(parts.into_iter().filter(|&part| part != 0 && kept.insert(part)));
        }
        let mut kept: Vec<u32> = kept.into_iter().collect();
        kept.sort_unstable();
        let mut out = Less { numbers: HashMap::new(), types: Vec::new(), strings: vec![0] };
        out.numbers = kept.iter().copied().zip(1..).collect();
        for &number in &kept {
            out.add(self, head(number)?, wanted)?;
        }
        Some(out.finish())
    }
}

/// Type information that is being written.
struct Less {
    /// New numbers by the kernel's.
    numbers: HashMap<u32, u32>,
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Less {
    fn put(&mut self, word: u32) {
        self.types.extend(word.to_ne_bytes());
    }

    fn put_name(&mut self, from: &Types<'_>, name: usize) {
        let rest = from.strings.get(name..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(0);
        if end == 0 {
            return self.put(0);
        }
        self.put(self.strings.len() as u32);
        self.strings.extend(&rest[..end]);
        self.strings.push(0);
    }

    /// A type that is not kept has become void, which is 0.
    fn put_type(&mut self, number: u32) {
        self.put(self.numbers.get(&number).copied().unwrap_or(0));
    }

    fn add(&mut self, from: &Types<'_>, head: Head, wanted: &Wanted<'_>) -> Option<()> {
        let members: Vec<usize> = match head.kind() {
            kind::STRUCT | kind::UNION => from.members(head, wanted).collect(),
            _ => Vec::new(),
        };
        self.put_name(from, head.name);
        match head.kind() {
            kind::STRUCT | kind::UNION => self.put(head.info & !0xffff | members.len() as u32),
            _ => self.put(head.info),
        }
        let tail = |word: usize| from.word(head.at + TYPE_BYTES + 4 * word);
        match head.kind() {
            kind::INT | kind::STRUCT | kind::UNION | kind::ENUM | kind::FLOAT | kind::ENUM64 => {
                self.put(head.refers);
            }
            _ => self.put_type(head.refers),
        }
        match head.kind() {
            kind::INT => self.put(tail(0)?),
            kind::ARRAY => {
                self.put_type(tail(0)?);
                self.put_type(tail(1)?);
                self.put(tail(2)?);
            }
            kind::STRUCT | kind::UNION => {
                for at in members {
                    self.put_name(from, from.word(at)? as usize);
                    self.put_type(from.word(at + 4)?);
                    self.put(from.word(at + 8)?);
                }
            }
            kind::ENUM | kind::ENUM64 => {
                let words = if head.kind() == kind::ENUM { 2 } else { 3 };
                for value in 0..head.count() {
                    self.put_name(from, tail(words * value)? as usize);
                    for word in 1..words {
                        self.put(tail(words * value + word)?);
                    }
                }
            }
            // They are named by nobody and part of nothing.
            kind::FUNC_PROTO | kind::VAR | kind::DATASEC | kind::DECL_TAG => return None,
            _ => {}
        }
        Some(())
    }

    fn finish(self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.types.len() + self.strings.len());
        bytes.extend(MAGIC.to_ne_bytes());
        // Version 1, no flags.
        bytes.extend([1, 0]);
        for word in [HEADER_BYTES as u32, 0, types, types, strings] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.types);
        bytes.extend(self.strings);
        bytes
    }
}

/// Where a program hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a tracepoint.
    Tracepoint(&'static str),
    /// Where a function of the kernel is entered.
    Enter(&'static str),
    /// Where it has returned.
    Exit(&'static str),
}

impl Place {
    /// The type by which the kernel knows it.
    pub(crate) fn name_of_type(self) -> String {
        match self {
            Place::Tracepoint(name) => format!("btf_trace_{name}"),
            Place::Enter(name) | Place::Exit(name) => name.to_owned(),
        }
    }

    /// The kind of that type.
    pub(crate) fn kind_of_type(self) -> u32 {
        match self {
            Place::Tracepoint(_) => kind::TYPEDEF,
            Place::Enter(_) | Place::Exit(_) => kind::FUNC,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Tracepoint(name) => write!(f, "tp_btf/{name}"),
            Place::Enter(name) => write!(f, "fentry/{name}"),
            Place::Exit(name) => write!(f, "fexit/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::load::parse_object;
    use crate::observe::object::Object;

    static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/observe.bpf.o");

    /// The programs as they are made for this kernel by all that it tells of its types, and by the part of it.
    #[test]
    fn programs_are_the_same_as_by_all_types() {
        let test = "programs_are_the_same_as_by_all_types";
        let (Ok(all), Ok((_, part))) = (Btf::from_sys_fs(), parse_object()) else {
            return println!("skipped: {test}: the kernel does not describe its types");
        };
        let made = |types: &Btf| {
            let mut object = aya_obj::Object::parse(OBJECT).unwrap();
            object.relocate_btf(types).unwrap();
            let code = |function: &aya_obj::Function| format!("{:?}", function.instructions);
            object.functions.values().map(code).collect::<Vec<_>>()
        };
        assert_eq!(made(part.needed()), made(&all));
        assert!(part.needed().to_bytes().len() < all.to_bytes().len() / 10);
        let place = Place::Tracepoint("sched_switch");
        let number = all.id_by_type_name_kind("btf_trace_sched_switch", aya_obj::btf::BtfKind::Typedef);
        assert_eq!(part.place(place), number.ok());
        assert_eq!(part.place(Place::Enter("no_such_function")), None);
    }

    #[test]
    fn beginnings_are_those_of_names_and_not_of_what_follows_them() {
        let known = Beginnings::of([&b"pid"[..], b"x", b"folio"].into_iter());
        for name in [&b"pid"[..], b"pid\0", b"pid\0inode\0", b"x\0y\0", b"x", b"folio\0", b"foli"] {
            assert!(known.has(name), "{name:?}");
        }
        for name in [&b"pi\0d\0"[..], b"pidfd\0", b"xy\0", b"\0pid\0", b"", b"file\0"] {
            assert!(!known.has(name), "{name:?}");
        }
    }

    #[test]
    fn types_are_found_by_their_numbers() {
        let whole = Object::parse(OBJECT).unwrap().types();
        let types = Types::parse(&whole).unwrap();
        let starts = types.starts(&mut Wanted::new(&[], &[])).unwrap();
        let (mut at, mut number) = (0, 0);
        while at < types.types.len() {
            number += 1;
            let head = types.numbered(&starts, number).unwrap();
            assert_eq!(head.at, at);
            at += TYPE_BYTES + head.tail_bytes().unwrap();
        }
        assert!(number as usize > STRIDE);
        assert!(types.numbered(&starts, 0).is_none() && types.numbered(&starts, number + 1).is_none());
    }

    #[test]
    fn what_is_cut_short_or_of_another_kind_is_refused() {
        let whole = Object::parse(OBJECT).unwrap().types();
        let read = |bytes: &[u8]| KernelTypes::of(bytes, &whole, std::iter::empty());
        assert!(read(&whole).is_some(), "an object's own types are as good as a kernel's");
        (0..whole.len()).step_by(7).for_each(|length| assert!(read(&whole[..length]).is_none()));
        // Whatever the bytes are.
        for at in (0..whole.len()).step_by(3) {
            let mut other = whole.clone();
            other[at] ^= 0xff;
            let _ = read(&other);
        }
    }
}
