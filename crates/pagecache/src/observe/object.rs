//! A BPF object in the kernel: its maps, and those of its programs that are attached.
//!
//! aya's own loader reads all types of the kernel for itself before it can be told not to, tries out what the kernel can
//! do with programs of its own. Programs of ours need none of that: Linux 6.1 has all they use. So aya parses and
//! relocates, and what is left are some calls of `bpf(2)`.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_char;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use aya::maps::{Map, MapData, MapError};
use aya_obj::EbpfSectionKind;
use aya_obj::btf::BtfFeatures;
use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_map_type, bpf_prog_info, bpf_prog_type,
};

use super::kernel_types::{KernelTypes, Place};

/// Bytes for the verifier's words, when it has refused a program.
const LOG_BYTES: usize = 4 << 20;

/// The call of `less_trusted` in `trust.h`.
const LESS_TRUSTED: i32 = 0x7fff_ff01;

/// Whatever parsing, relocating or creating maps may say.
pub(crate) type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// An object whose maps are there and whose programs are ready. They end with it.
pub(crate) struct Object {
    parsed: aya_obj::Object,
    /// With their kinds.
    maps: HashMap<String, (u32, MapData)>,
    /// Its type information, in the kernel.
    described: Option<OwnedFd>,
    /// The attached programs.
    attached: Vec<Link>,
    /// The number of the kernel's function that takes the verifier's trust from a pointer.
    trust_less: Option<u32>,
}

/// Why a program was not attached.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The kernel's answer.
    pub(crate) error: io::Error,
    /// The verifier's words, if it has said any.
    pub(crate) log: String,
}

impl Object {
    /// Parses an object.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Object, LoadError> {
        let parsed = aya_obj::Object::parse(bytes)?;
        Ok(Object { parsed, maps: HashMap::new(), described: None, attached: Vec::new(), trust_less: None })
    }

    /// Has the kernel's function of this number called where a program wants a pointer trusted less; otherwise the pointer
    /// stays as it is, and programs take longer to load.
    pub(crate) fn trust_less_by(&mut self, function: Option<u32>) {
        self.trust_less = function;
    }

    /// Its type information.
    pub(crate) fn types(&self) -> Vec<u8> {
        self.parsed.btf.as_ref().map(aya::Btf::to_bytes).unwrap_or_default()
    }

    /// Creates its maps, of the sizes given by name.
    pub(crate) fn create_maps(&mut self, sizes: &[(&str, u32)]) -> Result<(), LoadError> {
        for (name, map) in &mut self.parsed.maps {
            if let Some((_, entries)) = sizes.iter().find(|(of, _)| of == name) {
                map.set_max_entries(*entries);
            }
            self.maps.insert(name.clone(), (map.map_type(), create(name, map)?));
        }
        Ok(())
    }

    /// Fits the programs to this kernel and to the maps, which are there.
    pub(crate) fn prepare(
        &mut self,
        kernel: &KernelTypes,
        globals: HashMap<&str, (&[u8], bool)>,
    ) -> Result<(), LoadError> {
        self.parsed.patch_map_data(globals)?;
        self.parsed.relocate_btf(kernel.needed())?;
        let parsed: Vec<_> = self.parsed.maps.drain().collect();
        let mut maps = Vec::new();
        for (name, map) in &parsed {
            let (_, data) = self.maps.get(name).ok_or(MapError::KeyNotFound)?;
            fill(data, map)?;
            maps.push((name.as_str(), data.fd().as_fd().as_raw_fd(), map));
        }
        let text = self.parsed.functions.keys().map(|(section, _)| *section).collect();
        self.parsed.relocate_maps(maps.into_iter(), &text)?;
        self.parsed.relocate_calls(&text)?;
        Ok(())
    }

    /// Gives the kernel the object's type information, which it wants of programs that hand a function of theirs to it.
    pub(crate) fn describe(&mut self) -> Result<(), LoadError> {
        // All that the oldest kernel with such programs knows (5.17): enumerations of 64 bits came with 6.0.
        let features = BtfFeatures::new(true, true, true, true, true, true, true, false);
        let Some(types) = self.parsed.fixup_and_sanitize_btf(&features)? else { return Ok(()) };
        let types = types.to_bytes();
        // SAFETY: a structure of plain numbers, of which zero is one.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the part of the union that BPF_BTF_LOAD reads.
        let load = unsafe { &mut attributes.__bindgen_anon_7 };
        load.btf = types.as_ptr() as u64;
        load.btf_size = types.len() as u32;
        // SAFETY: the bytes live until the call has returned.
        self.described = Some(unsafe { descriptor(bpf_cmd::BPF_BTF_LOAD, &mut attributes) }?);
        Ok(())
    }

    /// Takes a map out of it.
    pub(crate) fn take_map(&mut self, name: &str) -> Result<Map, MapError> {
        let (kind, data) = self.maps.remove(name).ok_or(MapError::KeyNotFound)?;
        Ok(match bpf_map_type::try_from(kind) {
            Ok(bpf_map_type::BPF_MAP_TYPE_HASH) => Map::HashMap(data),
            Ok(bpf_map_type::BPF_MAP_TYPE_RINGBUF) => Map::RingBuf(data),
            _ => Map::Array(data),
        })
    }

    /// Forgets the programs that are not attached by now, and what they were made of.
    pub(crate) fn forget_programs(&mut self) {
        (self.parsed.btf, self.parsed.btf_ext) = (None, None);
        self.parsed.programs.clear();
        self.parsed.functions.clear();
    }

    /// Whether it has such a program.
    pub(crate) fn has_program(&self, name: &str) -> bool {
        self.parsed.programs.contains_key(name)
    }

    /// Loads a program and attaches it at a place that has this number among the kernel's types, for as long as what is
    /// given back lives.
    pub(crate) fn attach(&self, name: &str, place: Place, number: u32) -> Result<Link, Refusal> {
        let attach_type = match place {
            Place::Tracepoint(_) => bpf_attach_type::BPF_TRACE_RAW_TP,
            Place::Enter(_) => bpf_attach_type::BPF_TRACE_FENTRY,
            Place::Exit(_) => bpf_attach_type::BPF_TRACE_FEXIT,
        };
        let program =
            self.load(name, bpf_prog_type::BPF_PROG_TYPE_TRACING, Some((attach_type as u32, number)))?;
        // SAFETY: a structure of plain numbers, of which zero is one.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        attributes.raw_tracepoint.prog_fd = program.as_raw_fd() as u32;
        // SAFETY: it points to nothing.
        match unsafe { descriptor(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attributes) } {
            Ok(link) => Ok(Link { _link: link, program }),
            Err(error) => Err(Refusal { error, log: String::new() }),
        }
    }

    /// Keeps programs attached that are.
    pub(crate) fn keep(&mut self, links: Vec<Link>) {
        self.attached.extend(links);
    }

    /// How often the kernel has passed over a program: less than before where it does not answer about one of them.
    pub(crate) fn passed_over(&self) -> u64 {
        self.attached.iter().filter_map(Link::passed_over).sum()
    }

    /// Loads a program that is attached to nothing: it is run when it is asked for.
    pub(crate) fn load_callable(&self, name: &str) -> Result<Callable, Refusal> {
        self.load(name, bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT, None).map(Callable)
    }

    /// Loads a program; `place` is how it will be attached, and the number of the place among the kernel's types.
    fn load(&self, name: &str, kind: bpf_prog_type, place: Option<(u32, u32)>) -> Result<OwnedFd, Refusal> {
        let found = self.parsed.programs.get(name);
        let function = found.and_then(|program| self.parsed.functions.get(&program.function_key()));
        let (Some(program), Some(function)) = (found, function) else {
            return Err(Refusal { error: io::ErrorKind::NotFound.into(), log: String::new() });
        };
        let (instructions, calls) = trusting_less(&function.instructions, self.trust_less);
        // SAFETY: a structure of plain numbers, of which zero is one.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the part of the union that BPF_PROG_LOAD reads.
        let load = unsafe { &mut attributes.__bindgen_anon_3 };
        load.prog_type = kind as u32;
        if let Some((attach_type, number)) = place {
            load.expected_attach_type = attach_type;
            load.attach_btf_id = number;
        }
        load.insns = instructions.as_ptr() as u64;
        load.insn_cnt = instructions.len() as u32;
        load.license = program.license.as_ptr() as u64;
        let functions = function.func_info.func_info_bytes();
        if let Some(types) = &self.described {
            load.prog_btf_fd = types.as_raw_fd() as u32;
            load.func_info = functions.as_ptr() as u64;
            load.func_info_cnt = function.func_info.num_info;
            load.func_info_rec_size = function.func_info_rec_size as u32;
        }
        let room = load.prog_name.len() - 1;
        for (into, byte) in load.prog_name.iter_mut().zip(name.bytes().take(room)) {
            *into = byte as c_char;
        }
        // SAFETY: what it points to lives until the end of this function.
        let error = match unsafe { descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attributes) } {
            Ok(loaded) => return Ok(loaded),
            Err(error) => error,
        };
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(Refusal { error, log: String::new() });
        }
        // The kernel's own functions are called from compiled programs only. Without them it takes longer.
        let (instructions, _) = trusting_less(&function.instructions, None);
        if calls {
            // SAFETY: as above.
            let load = unsafe { &mut attributes.__bindgen_anon_3 };
            load.insns = instructions.as_ptr() as u64;
            // SAFETY: as above.
            if let Ok(loaded) = unsafe { descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attributes) } {
                return Ok(loaded);
            }
        }
        // Once more, for its reasons.
        let mut log = vec![0_u8; LOG_BYTES];
        // SAFETY: as above.
        let load = unsafe { &mut attributes.__bindgen_anon_3 };
        load.log_level = 1;
        load.log_buf = log.as_mut_ptr() as u64;
        load.log_size = LOG_BYTES as u32;
        // SAFETY: as above; the kernel writes no more than the bytes that there are.
        unsafe { descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attributes) }.map_err(|_| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            Refusal { error, log: String::from_utf8_lossy(&log[..end]).into_owned() }
        })
    }
}

/// A program that is attached for as long as this lives.
#[derive(Debug)]
pub(crate) struct Link {
    _link: OwnedFd,
    program: OwnedFd,
}

impl Link {
    /// How often the kernel has not run it because it was running on that processor already
    /// (`bpf_prog_get_recursion_context` of `include/linux/bpf.h`). From Linux 7.0 on a task may be preempted within a program
    /// of a tracepoint, and until it goes on nobody else on its processor is seen by that program.
    pub(crate) fn passed_over(&self) -> Option<u64> {
        let mut found = MaybeUninit::<bpf_prog_info>::zeroed();
        // SAFETY: a structure of plain numbers, of which zero is one.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        attributes.info.bpf_fd = self.program.as_raw_fd() as u32;
        attributes.info.info_len = size_of::<bpf_prog_info>() as u32;
        attributes.info.info = found.as_mut_ptr() as u64;
        // SAFETY: the kernel writes no more than so many bytes there, and into the attributes how many.
        unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }.ok()?;
        // SAFETY: numbers, of which each was zero before.
        Some(unsafe { found.assume_init() }.recursion_misses)
    }
}

/// A program with the kernel's function of this number where it wants a pointer trusted less, or without; and whether it
/// is called.
fn trusting_less(instructions: &[bpf_insn], function: Option<u32>) -> (Vec<bpf_insn>, bool) {
    // `include/uapi/linux/bpf.h`: BPF_JMP | BPF_CALL, BPF_ALU64 | BPF_MOV | BPF_X, BPF_PSEUDO_KFUNC_CALL.
    const CALL: u8 = 0x85;
    const MOVE: u8 = 0xbf;
    const OF_KERNEL: u8 = 2;
    let mut instructions = instructions.to_vec();
    let mut calls = false;
    let wanted =
        instructions.iter_mut().filter(|i| i.code == CALL && i.src_reg() == 0 && i.imm == LESS_TRUSTED);
    for instruction in wanted {
        if let Some(number) = function {
            instruction.set_src_reg(OF_KERNEL);
            instruction.imm = number as i32;
            calls = true;
        } else {
            // The first argument is the answer.
            (instruction.code, instruction.imm) = (MOVE, 0);
            instruction.set_dst_reg(0);
            instruction.set_src_reg(1);
        }
    }
    (instructions, calls)
}

/// A program that runs when it is asked, with one argument, and answers in a map.
pub(crate) struct Callable(OwnedFd);

impl Callable {
    /// Runs it (`BPF_PROG_TEST_RUN`).
    pub(crate) fn call(&self, argument: u64) -> io::Result<()> {
        // SAFETY: a structure of plain numbers, of which zero is one.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the part of the union that BPF_PROG_TEST_RUN reads.
        let run = unsafe { &mut attributes.test };
        run.prog_fd = self.0.as_raw_fd() as u32;
        run.ctx_in = (&raw const argument) as u64;
        run.ctx_size_in = size_of_val(&argument) as u32;
        // SAFETY: the argument lives until the call has returned; what the program answers goes into the attributes.
        unsafe { bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attributes) }.map(drop)
    }
}

/// Creates a map.
fn create(name: &str, map: &aya_obj::Map) -> Result<MapData, LoadError> {
    // SAFETY: a structure of plain numbers, of which zero is one.
    let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the part of the union that BPF_MAP_CREATE reads.
    let create = unsafe { &mut attributes.__bindgen_anon_1 };
    create.map_type = map.map_type();
    create.key_size = map.key_size();
    create.value_size = map.value_size();
    create.max_entries = map.max_entries();
    create.map_flags = map.map_flags();
    // The kernel takes no other letters, which the names of sections have.
    let letters = name.bytes().map(|byte| if byte.is_ascii_alphanumeric() { byte } else { b'_' });
    let room = create.map_name.len() - 1;
    for (into, byte) in create.map_name.iter_mut().take(room).zip(letters) {
        *into = byte as c_char;
    }
    // SAFETY: it points to nothing.
    let fd = unsafe { descriptor(bpf_cmd::BPF_MAP_CREATE, &mut attributes) };
    let fd = fd.map_err(|io_error| MapError::CreateError { name: name.to_owned(), io_error })?;
    Ok(MapData::from_fd(fd)?)
}

/// Writes the constants into the map that has them, after which nobody changes it: the verifier leaves out what they rule
/// out.
fn fill(data: &MapData, map: &aya_obj::Map) -> io::Result<()> {
    let fd = data.fd().as_fd().as_raw_fd() as u32;
    if !map.data().is_empty() {
        let key = 0_u32;
        // SAFETY: a structure of plain numbers, of which zero is one.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the part of the union that BPF_MAP_UPDATE_ELEM reads.
        let update = unsafe { &mut attributes.__bindgen_anon_2 };
        update.map_fd = fd;
        update.key = (&raw const key) as u64;
        update.__bindgen_anon_1.value = map.data().as_ptr() as u64;
        // SAFETY: the map's one value has as many bytes as its section of the object.
        unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attributes) }?;
    }
    if map.section_kind() == EbpfSectionKind::Rodata {
        // SAFETY: as above.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the part of the union that BPF_MAP_FREEZE reads.
        unsafe { &mut attributes.__bindgen_anon_2 }.map_fd = fd;
        // SAFETY: it points to nothing.
        unsafe { bpf(bpf_cmd::BPF_MAP_FREEZE, &mut attributes) }?;
    }
    Ok(())
}

/// `bpf(2)` with an answer that is a descriptor.
///
/// # Safety
/// What `attributes` points to must be as the command wants it, for as long as the call takes, and ours to be written where the
/// kernel writes.
unsafe fn descriptor(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: as the caller says.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just made it for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// `bpf(2)`. Loading may be interrupted by a signal, and then has to be asked for again (`EAGAIN`).
///
/// # Safety
/// What `attributes` points to must be as the command wants it, for as long as the call takes, and ours to be written where the
/// kernel writes.
unsafe fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i64> {
    const TRIES: usize = 5;
    let mut tries = 0;
    loop {
        // SAFETY: the kernel reads and writes no more than so many bytes, which are ours alone, and what they point to is as
        // the caller says.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command as libc::c_long,
                std::ptr::from_mut(attributes),
                size_of::<bpf_attr>(),
            )
        };
        if answer >= 0 {
            return Ok(answer);
        }
        let error = io::Error::last_os_error();
        tries += 1;
        if error.raw_os_error() != Some(libc::EAGAIN) || tries == TRIES {
            return Err(error);
        }
    }
}
