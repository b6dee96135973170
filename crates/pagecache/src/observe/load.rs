//! Brings the BPF object into the kernel, or says precisely why not.

use std::io;

use aya::maps::{Map, MapData, MapError};
use aya::programs::{BtfTracePoint, FEntry, Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use aya_obj::btf::BtfKind;

use super::privileges::{Capabilities, in_initial_pid_namespace};
use super::{MANAGED_FILES, ObserveError, ObserverConfig, ReadHook};

/// The object, built by `src/bpf/build`. Aligned, because an ELF parser reads it in place.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/observe.bpf.o");

/// Smallest and largest ring: a page, and what keeps positions far from the limit of the kernel's own
/// arithmetic (`RINGBUF_MAX_DATA_SZ` is 64 GiB, but `max_entries` has 32 bits).
const RING_MAX_BYTES: u32 = 1 << 30;

/// A program of the object.
pub(crate) struct Hook {
    /// Name in the object.
    pub(crate) program: &'static str,
    /// The tracepoint that it hangs on.
    pub(crate) tracepoint: &'static str,
    /// Whether observation makes sense without it.
    pub(crate) required: bool,
}

/// The tracepoint for buffered reads (Linux 6.12 and later).
pub(crate) const READ_TRACEPOINT: Hook =
    Hook { program: "foretell_read", tracepoint: "mm_filemap_get_pages", required: false };

/// All the others. The two for mapped files came with [`READ_TRACEPOINT`]; older kernels do without.
pub(crate) const HOOKS: [Hook; 9] = [
    Hook { program: "foretell_add", tracepoint: "mm_filemap_add_to_page_cache", required: true },
    Hook { program: "foretell_remove", tracepoint: "mm_filemap_delete_from_page_cache", required: true },
    Hook { program: "foretell_fault", tracepoint: "mm_filemap_fault", required: false },
    Hook { program: "foretell_map", tracepoint: "mm_filemap_map_pages", required: false },
    Hook { program: "foretell_fork", tracepoint: "sched_process_fork", required: true },
    Hook { program: "foretell_exec", tracepoint: "sched_process_exec", required: true },
    Hook { program: "foretell_exit", tracepoint: "sched_process_exit", required: true },
    Hook { program: "foretell_switch", tracepoint: "sched_switch", required: true },
    Hook { program: "foretell_bio", tracepoint: "block_bio_queue", required: true },
];

/// The program that tells of pages which leave the cache: one more call for each, on the whole machine.
const REMOVALS: &str = "foretell_remove";

/// The program and the function of the fallback for buffered reads.
pub(crate) const READ_FENTRY: (&str, &str) = ("foretell_enter", "filemap_read");

/// The object with its programs attached.
pub(super) struct Loaded {
    /// Owns programs and links: they end with it.
    pub(super) object: Ebpf,
    pub(super) read_hook: ReadHook,
    pub(super) sees_faults: bool,
}

/// The kernel's own type information.
pub(crate) fn kernel_types() -> Result<Btf, ObserveError> {
    Btf::from_sys_fs().map_err(|source| ObserveError::BtfAbsent { source: Box::new(source) })
}

/// Whether the kernel has `tracepoint` for BPF programs.
pub(crate) fn has_tracepoint(types: &Btf, tracepoint: &str) -> bool {
    types.id_by_type_name_kind(&format!("btf_trace_{tracepoint}"), BtfKind::Typedef).is_ok()
}

/// Creates the maps and prepares the programs, without loading any.
pub(crate) fn open_object(loader: EbpfLoader<'_>, ring_bytes: u32, files: u32) -> Result<Ebpf, ObserveError> {
    if let Some(lacking) = Capabilities::current().lacking_for_bpf() {
        return Err(ObserveError::NotPermitted { lacking });
    }
    let page_bytes = page_bytes();
    if !ring_bytes.is_power_of_two() || ring_bytes < page_bytes || ring_bytes > RING_MAX_BYTES {
        return Err(ObserveError::RingSize { ring_bytes, page_bytes });
    }
    let page_shift = page_bytes.trailing_zeros();
    // Lives no longer than what it is told of.
    let mut loader: EbpfLoader<'_> = loader;
    loader
        .override_global("page_shift", &page_shift, true)
        .map_max_entries("ring", ring_bytes)
        .map_max_entries("files", files)
        .load(OBJECT)
        .map_err(|source| {
            if is_not_permitted(&source) {
                refused()
            } else {
                ObserveError::Object { source: Box::new(source) }
            }
        })
}

/// Loads and attaches one program to its tracepoint.
pub(crate) fn attach(object: &mut Ebpf, types: &Btf, hook: &Hook) -> Result<(), ObserveError> {
    let program = tracepoint_program(object, hook)?;
    program.load(hook.tracepoint, types).and_then(|()| program.attach()).map(drop).map_err(|source| {
        if is_not_permitted(&source) {
            refused()
        } else {
            ObserveError::ProgramRefused { program: hook.program, reason: reason(&source) }
        }
    })
}

fn tracepoint_program<'a>(object: &'a mut Ebpf, hook: &Hook) -> Result<&'a mut BtfTracePoint, ObserveError> {
    match object.program_mut(hook.program) {
        Some(Program::BtfTracePoint(program)) => Ok(program),
        _ => Err(ObserveError::ProgramRefused {
            program: hook.program,
            reason: "it is not in the object that was built".to_owned(),
        }),
    }
}

/// Loads and attaches the fallback for buffered reads.
pub(crate) fn attach_fentry(object: &mut Ebpf, types: &Btf) -> Result<(), ObserveError> {
    let (name, function) = READ_FENTRY;
    let refused = |reason: String| ObserveError::ReadHookRefused { hook: ReadHook::Fentry, reason };
    let Some(Program::FEntry(program)) = object.program_mut(name) else {
        return Err(refused("it is not in the object that was built".to_owned()));
    };
    let program: &mut FEntry = program;
    program
        .load(function, types)
        .and_then(|()| program.attach())
        .map(drop)
        .map_err(|source| refused(reason(&source)))
}

/// Everything at once.
pub(super) fn load(config: &ObserverConfig) -> Result<Loaded, ObserveError> {
    if !in_initial_pid_namespace() {
        return Err(ObserveError::PidNamespace);
    }
    // The loader reads the kernel's types for itself, whether it is given them or not: 40 ms each, side by side.
    let (types, loader) = std::thread::scope(|scope| {
        let types = scope.spawn(kernel_types);
        let loader = EbpfLoader::new();
        (types.join(), loader)
    });
    let types = types.unwrap_or_else(|_| kernel_types())?;
    // Who only watches has nothing to say about files; the table of the others takes 4 MiB.
    let files = if config.watch_only { 1 } else { MANAGED_FILES };
    let mut object = open_object(loader, config.ring_bytes, files)?;
    let mut sees_faults = true;
    for hook in HOOKS.iter().filter(|hook| !(config.watch_only && hook.program == REMOVALS)) {
        if has_tracepoint(&types, hook.tracepoint) {
            attach(&mut object, &types, hook)?;
        } else if hook.required {
            return Err(ObserveError::TracepointAbsent { name: hook.tracepoint });
        } else {
            sees_faults = false;
        }
    }
    let read_hook = if has_tracepoint(&types, READ_TRACEPOINT.tracepoint) {
        attach(&mut object, &types, &READ_TRACEPOINT)?;
        ReadHook::Tracepoint
    } else {
        attach_fentry(&mut object, &types)?;
        ReadHook::Fentry
    };
    Ok(Loaded { object, read_hook, sees_faults })
}

/// Takes the map `name` out of the object.
pub(crate) fn take_map(object: &mut Ebpf, name: &'static str) -> Result<Map, ObserveError> {
    object.take_map(name).ok_or_else(|| map_error(name)(MapError::KeyNotFound))
}

/// Takes the array `name` out of the object, to be mapped.
pub(crate) fn take_array(object: &mut Ebpf, name: &'static str) -> Result<MapData, ObserveError> {
    match take_map(object, name)? {
        Map::Array(data) => Ok(data),
        _ => Err(map_error(name)(MapError::KeyNotFound)),
    }
}

/// Takes the ring out of the object.
pub(super) fn take_ring(object: &mut Ebpf) -> Result<MapData, ObserveError> {
    match take_map(object, "ring")? {
        Map::RingBuf(data) => Ok(data),
        _ => Err(map_error("ring")(MapError::KeyNotFound)),
    }
}

/// Says which map an error is about.
pub(super) fn map_error(map: &'static str) -> impl Fn(MapError) -> ObserveError {
    move |source| ObserveError::Map { map, source: Box::new(source) }
}

/// The machine's page size, bytes.
pub(crate) fn page_bytes() -> u32 {
    u32::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// The capabilities are there, and still the kernel says no.
fn refused() -> ObserveError {
    ObserveError::NotPermitted {
        lacking: "CAP_BPF and CAP_PERFMON in the host's user namespace, on a kernel that is not locked down"
            .to_owned(),
    }
}

/// Whether an error came from a system call that answered `EPERM`, however deep.
fn is_not_permitted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return io.raw_os_error() == Some(libc::EPERM);
        }
        next = error.source();
    }
    false
}

/// One line of what may be pages: the verifier's last words say why.
fn reason(error: &ProgramError) -> String {
    let ProgramError::LoadError { io_error, verifier_log } = error else {
        return one_line(error);
    };
    let log = verifier_log.to_string();
    match objection(&log) {
        Some(objection) => format!("{io_error}; {objection}"),
        None => io_error.to_string(),
    }
}

/// The line of the verifier's log that says what it objected to: the last one that is no statistics
/// (`print_verification_stats` of `kernel/bpf/verifier.c`).
fn objection(log: &str) -> Option<&str> {
    const STATISTICS: [&str; 4] = ["processed ", "stack depth ", "verification time ", "insns processed "];
    let tells = |line: &&str| !line.is_empty() && !STATISTICS.iter().any(|start| line.starts_with(start));
    log.lines().rev().find(tells)
}

fn one_line(error: &ProgramError) -> String {
    let mut line = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        line.push_str(": ");
        line.push_str(&error.to_string());
        next = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objection_is_the_line_before_the_statistics() {
        let log = "0: (79) r6 = *(u64 *)(r1 +0)\nR1 invalid mem access 'scalar'\nverification time 81 usec\n\
                   stack depth 48\nprocessed 14 insns (limit 1000000) max_states_per_insn 0\n\n";
        assert_eq!(objection(log), Some("R1 invalid mem access 'scalar'"));
        assert_eq!(objection("processed 1 insns\n"), None);
        assert_eq!(objection(""), None);
    }
}
