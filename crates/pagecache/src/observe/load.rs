//! Brings the BPF object into the kernel, or says precisely why not.

use std::collections::HashMap;
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use aya::maps::{Map, MapData, MapError};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::kernel_types::{KernelTypes, Place};
use super::object::{Link, LoadError, Object, Refusal};
use super::privileges::{Capabilities, has_seccomp_filter, is_in_the_hosts_user_namespace, pid_namespace};
use super::{ObserveError, ObserverConfig, ReadHook, shared};
use crate::identity::types::BtrfsPlaces;

/// The object, built by `src/bpf/build`. Aligned, because an ELF parser reads it in place.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/observe.bpf.o");

/// Smallest and largest ring: a page, and what keeps positions far from the limit of the kernel's own
/// arithmetic (`RINGBUF_MAX_DATA_SZ` is 64 GiB, but `max_entries` has 32 bits).
const RING_MAX_BYTES: u32 = 1 << 30;

/// Descriptors that are open at a time while the programs are loaded, at most: 38 were seen.
const DESCRIPTORS: usize = 48;

/// A program of the object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hook {
    /// Name in the object.
    pub(crate) program: &'static str,
    /// Where it hangs.
    pub(crate) place: Place,
    /// There is nothing to see there on kernels that do not have the place.
    only_if_there: bool,
}

const fn on(program: &'static str, place: Place) -> Hook {
    Hook { program, place, only_if_there: false }
}

/// Something to be seen, and the ways to see it, the best one first. All programs of a way belong together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    /// What, in words.
    pub(crate) what: &'static str,
    pub(crate) ways: &'static [&'static [Hook]],
    /// Whether observation makes sense without it.
    pub(crate) required: bool,
}

use Place::{Enter, Exit, Tracepoint};

/// Buffered reads. The tracepoint is there from Linux 6.12 on.
pub(crate) const READS: Sight = Sight {
    what: "reads",
    ways: &[
        &[on("foretell_read", Tracepoint("mm_filemap_get_pages"))],
        &[
            on("foretell_read_end", Exit("filemap_read")),
            Hook {
                program: "foretell_splice_end",
                place: Exit("filemap_splice_read"),
                // Before Linux 6.5 filemap_read is called for that too.
                only_if_there: true,
            },
        ],
    ],
    required: true,
};

/// Faults on mapped files.
const FAULTS: Sight = Sight {
    what: "reads of mapped files",
    ways: &[
        &[
            on("foretell_fault", Tracepoint("mm_filemap_fault")),
            on("foretell_map", Tracepoint("mm_filemap_map_pages")),
        ],
        &[
            on("foretell_fault_enter", Enter("filemap_fault")),
            on("foretell_map_end", Exit("filemap_map_pages")),
        ],
    ],
    required: false,
};

const fn always(what: &'static str, ways: &'static [&'static [Hook]]) -> Sight {
    Sight { what, ways, required: true }
}

/// All that is to be seen.
pub(crate) const SIGHTS: [Sight; 9] = [
    READS,
    always(ARRIVALS, &[&[on("foretell_add", Tracepoint("mm_filemap_add_to_page_cache"))]]),
    always(REMOVALS, &[&[on("foretell_remove", Tracepoint("mm_filemap_delete_from_page_cache"))]]),
    FAULTS,
    always("new processes", &[&[on("foretell_fork", Tracepoint("sched_process_fork"))]]),
    always("new programs", &[&[on("foretell_exec", Tracepoint("sched_process_exec"))]]),
    always("ends of processes", &[&[on("foretell_exit", Tracepoint("sched_process_exit"))]]),
    always(
        "waits",
        &[
            &[on("foretell_switch", Tracepoint("sched_switch"))],
            &[on("foretell_switch_3", Tracepoint("sched_switch"))],
        ],
    ),
    always("requests to devices", &[&[on("foretell_bio", Tracepoint("block_bio_queue"))]]),
];

/// The kernel's function that takes the verifier's trust from a pointer (`less_trusted` of `trust.h`), from Linux 6.2 on.
const LESS_TRUSTED: Place = Enter("bpf_rdonly_cast");

const ARRIVALS: &str = "pages that come";
/// One more call for each page that leaves the cache, on the whole machine.
const REMOVALS: &str = "pages that go";

/// The object with its programs attached.
pub(super) struct Loaded {
    /// Owns programs and links: they end with it.
    pub(super) object: Object,
    pub(super) read_hook: ReadHook,
    pub(super) sees_faults: bool,
    /// See [`KernelTypes::btrfs`].
    pub(super) btrfs: Option<BtrfsPlaces>,
    /// Elements of the map `tracked`.
    pub(super) tracked_words: u32,
}

/// The object, and what it needs of the kernel's own type information.
pub(crate) fn parse_object() -> Result<(Object, KernelTypes), ObserveError> {
    let object = Object::parse(OBJECT).map_err(not_loaded)?;
    let types = read_types(&object.types())?;
    Ok((object, types))
}

/// What an object that describes itself by `types` needs of the kernel's type information.
fn read_types(types: &[u8]) -> Result<KernelTypes, ObserveError> {
    let hooks = SIGHTS.iter().flat_map(|sight| sight.ways.iter().copied().flatten());
    let places = hooks.map(|hook| hook.place).chain([LESS_TRUSTED]);
    KernelTypes::read(types, places).map_err(|source| ObserveError::BtfAbsent { source })
}

/// Creates the maps, of these sizes.
pub(crate) fn create_maps(
    object: &mut Object,
    ring_bytes: u32,
    sizes: &[(&str, u32)],
) -> Result<(), ObserveError> {
    if let Some(lacking) = Capabilities::current().lacking_for_bpf() {
        return Err(ObserveError::NotPermitted { lacking });
    }
    let page_bytes = page_bytes();
    if !ring_bytes.is_power_of_two() || ring_bytes < page_bytes || ring_bytes > RING_MAX_BYTES {
        return Err(ObserveError::RingSize { ring_bytes, page_bytes });
    }
    object.create_maps(&[&[("ring", ring_bytes)], sizes].concat()).map_err(not_loaded)
}

/// Prepares the programs of an object that has its maps, without loading any.
pub(crate) fn prepare(object: &mut Object, types: &KernelTypes) -> Result<(), ObserveError> {
    let page_shift = page_bytes().trailing_zeros().to_ne_bytes();
    let pid_namespace = pid_namespace().ok_or(ObserveError::PidNamespace)?.to_ne_bytes();
    let casts = types.place(LESS_TRUSTED).zip(types.told());
    let [mapping, folio] = casts.map_or([0; 2], |(_, told)| told).map(u32::to_ne_bytes);
    object.trust_less_by(casts.map(|(function, _)| function));
    let globals = HashMap::from([
        ("page_shift", (&page_shift[..], true)),
        ("pid_namespace", (&pid_namespace[..], true)),
        ("address_space_type", (&mapping[..], true)),
        ("folio_type", (&folio[..], true)),
    ]);
    object.prepare(types, globals).map_err(not_loaded)
}

fn not_loaded(source: LoadError) -> ObserveError {
    if is_not_permitted(&*source) { refused() } else { ObserveError::Object { source } }
}

/// Loads and attaches one program.
fn attach_one(object: &Object, number: u32, hook: &Hook) -> Result<Link, ObserveError> {
    if !object.has_program(hook.program) {
        let reason = "it is not in the object that was built".to_owned();
        return Err(ObserveError::ProgramRefused { program: hook.program, reason });
    }
    object.attach(hook.program, hook.place, number).map_err(|refusal| {
        if refusal.error.raw_os_error() == Some(libc::EPERM) {
            refused()
        } else {
            ObserveError::ProgramRefused { program: hook.program, reason: reason(&refusal) }
        }
    })
}

/// Goes through the ways to see something until one works, and says what became of each hook that was tried, and which way
/// it is. It is the one place where that is decided: the doctor reports what it says.
pub(crate) fn attach(object: &Object, types: &KernelTypes, sight: &Sight) -> Attached {
    let mut tried = Vec::new();
    for (number, way) in sight.ways.iter().enumerate() {
        let wanted = way.iter().filter(|hook| !hook.only_if_there || types.place(hook.place).is_some());
        let mut links = Vec::new();
        let mut works = true;
        for hook in wanted {
            let done = match types.place(hook.place) {
                Some(number) => attach_one(object, number, hook).map(|link| links.push(link)),
                None => Err(ObserveError::PlaceAbsent { place: hook.place.to_string() }),
            };
            works &= done.is_ok();
            tried.push((*hook, done));
            if !works {
                break;
            }
        }
        if works {
            return Attached { way: Some(number), links, tried };
        }
    }
    Attached { way: None, links: Vec::new(), tried }
}

/// What became of a [`Sight`].
pub(crate) struct Attached {
    /// Which of its ways works.
    pub(crate) way: Option<usize>,
    /// The programs of that way, attached for as long as these live.
    links: Vec<Link>,
    pub(crate) tried: Vec<(Hook, Result<(), ObserveError>)>,
}

impl Attached {
    /// Which way it is, and its programs.
    ///
    /// # Errors
    /// What the kernel said to the last one, if it has the place; else to the first one.
    fn way(self) -> Result<(usize, Vec<Link>), ObserveError> {
        if let Some(way) = self.way {
            return Ok((way, self.links));
        }
        let mut errors = self.tried.into_iter().filter_map(|(_, done)| done.err());
        let first = errors.next();
        let last = errors.filter(|error| !matches!(error, ObserveError::PlaceAbsent { .. })).last();
        Err(last.or(first).unwrap_or_else(refused))
    }
}

/// All of these, as many at a time as there are processors: the kernel checks a program for milliseconds, before which no
/// job can begin.
fn attach_all(object: &Object, types: &KernelTypes, sights: &[&Sight]) -> Vec<Attached> {
    let next = AtomicUsize::new(0);
    // Each takes the next one that nobody has taken.
    let some = || {
        let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let own = taken.map_while(|at| sights.get(at).map(|sight| (at, attach(object, types, sight))));
        own.collect::<Vec<_>>()
    };
    let helpers = std::thread::available_parallelism().map_or(1, usize::from).min(sights.len()) - 1;
    let mut attached = std::thread::scope(|scope| {
        // Where there is no thread to be had it is done here.
        let start = || std::thread::Builder::new().spawn_scoped(scope, some).ok();
        let threads: Vec<_> = (0..helpers).map_while(|_| start()).collect();
        let mut attached = some();
        for thread in threads {
            attached.extend(thread.join().unwrap_or_else(|defect| resume_unwind(defect)));
        }
        attached
    });
    attached.sort_unstable_by_key(|(at, _)| *at);
    attached.into_iter().map(|(_, attached)| attached).collect()
}

/// Everything at once.
pub(super) fn load(config: &ObserverConfig) -> Result<Loaded, ObserveError> {
    let mut object = Object::parse(OBJECT).map_err(not_loaded)?;
    let described = object.types();
    let tracked_words = shared::tracked_words();
    let sizes = [
        ("files", config.files),
        ("accounts", config.processes),
        ("waits", config.processes),
        ("tracked", tracked_words),
    ];
    let (types, created) = std::thread::scope(|scope| {
        // The maps can be made meanwhile.
        let maps = || create_maps(&mut object, config.ring_bytes, &sizes);
        let created = std::thread::Builder::new().spawn_scoped(scope, maps);
        let types = read_types(&described);
        let created = created.map(|thread| thread.join().unwrap_or_else(|defect| resume_unwind(defect)));
        (types, created)
    });
    let types = types?;
    // Where there is no thread to be had they are made now.
    created.unwrap_or_else(|_| create_maps(&mut object, config.ring_bytes, &sizes))?;
    prepare(&mut object, &types)?;
    let (mut read_hook, mut sees_faults) = (ReadHook::Tracepoint, true);
    let wanted = SIGHTS.iter().filter(|sight| !(config.watch_only && sight.what == REMOVALS));
    let wanted: Vec<&Sight> = wanted.collect();
    for (sight, attached) in wanted.iter().zip(attach_all(&object, &types, &wanted)) {
        match attached.way() {
            Ok((way, links)) => {
                object.keep(links);
                if sight.what == READS.what && way > 0 {
                    read_hook = ReadHook::Exit;
                }
            }
            Err(error) if sight.required => return Err(error),
            Err(_) => sees_faults = false,
        }
    }
    object.forget_programs();
    Ok(Loaded { object, read_hook, sees_faults, btrfs: types.btrfs(), tracked_words })
}

/// Takes the map `name` out of the object.
pub(crate) fn take_map(object: &mut Object, name: &'static str) -> Result<Map, ObserveError> {
    object.take_map(name).map_err(map_error(name))
}

/// Takes the array `name` out of the object, to be mapped.
pub(crate) fn take_array(object: &mut Object, name: &'static str) -> Result<MapData, ObserveError> {
    match take_map(object, name)? {
        Map::Array(data) => Ok(data),
        _ => Err(map_error(name)(MapError::KeyNotFound)),
    }
}

/// Takes the ring out of the object.
pub(super) fn take_ring(object: &mut Object) -> Result<MapData, ObserveError> {
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
    if has_seccomp_filter() && is_in_the_hosts_user_namespace() {
        return ObserveError::Filtered;
    }
    let lacking = "CAP_BPF and CAP_PERFMON in the host's user namespace, on a kernel that is not locked down";
    ObserveError::NotPermitted { lacking: lacking.to_owned() }
}

/// Why there is no observer: where descriptors are few, that is it, whatever else seemed to be. (A kernel's features are found
/// out by trying, and what cannot be tried looks as if it was not there.)
pub(super) fn or_few_descriptors(error: ObserveError) -> ObserveError {
    let one = || eventfd(0, EventfdFlags::CLOEXEC);
    let some: Result<Vec<_>, _> = std::iter::repeat_with(one).take(DESCRIPTORS).collect();
    match some {
        Err(Errno::MFILE | Errno::NFILE) => ObserveError::FewDescriptors { needed: DESCRIPTORS },
        _ => error,
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
fn reason(Refusal { error, log }: &Refusal) -> String {
    match objection(log) {
        Some(objection) => format!("{error}; {objection}"),
        None => error.to_string(),
    }
}

/// The line of the verifier's log that says what it objected to: the last one that is no statistics
/// (`print_verification_stats` of `kernel/bpf/verifier.c`).
fn objection(log: &str) -> Option<&str> {
    const STATISTICS: [&str; 4] = ["processed ", "stack depth ", "verification time ", "insns processed "];
    let tells = |line: &&str| !line.is_empty() && !STATISTICS.iter().any(|start| line.starts_with(start));
    log.lines().rev().find(tells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared() -> Result<(Object, KernelTypes), ObserveError> {
        let (mut object, types) = parse_object()?;
        create_maps(&mut object, page_bytes(), &[("files", 1)])?;
        prepare(&mut object, &types)?;
        Ok((object, types))
    }

    /// Kernels before 5.18 tell three things of a switch; every kernel takes a program that asks for three.
    #[test]
    fn waits_can_be_seen_without_the_state_among_the_arguments() {
        let test = "waits_can_be_seen_without_the_state_among_the_arguments";
        let (object, types) = match prepared() {
            Ok(made) => made,
            Err(why) => return println!("skipped: {test}: {why}"),
        };
        let waits = SIGHTS.iter().find(|sight| sight.what == "waits").unwrap();
        let hook = &waits.ways[1][0];
        attach_one(&object, types.place(hook.place).unwrap(), hook).unwrap();
    }

    /// As on Linux 6.1, and where the kernel calls no functions of its own from programs.
    #[test]
    fn programs_load_also_where_all_pointers_are_trusted() {
        let test = "programs_load_also_where_all_pointers_are_trusted";
        let (mut object, types) = match prepared() {
            Ok(made) => made,
            Err(why) => return println!("skipped: {test}: {why}"),
        };
        let of = |what: &str| SIGHTS.iter().find(|sight| sight.what == what).unwrap();
        let no_function = types.place(of("new processes").ways[0][0].place);
        for trust_less in [None, no_function] {
            object.trust_less_by(trust_less);
            for sight in [&READS, of(ARRIVALS), of(REMOVALS)] {
                let (_, links) = attach(&object, &types, sight).way().unwrap();
                assert!(links.iter().all(|link| link.passed_over().is_some()), "it is not told");
            }
        }
    }

    #[test]
    fn the_first_way_that_works_is_taken_and_what_lacks_is_named() {
        let test = "the_first_way_that_works_is_taken_and_what_lacks_is_named";
        let (object, types) = match prepared() {
            Ok(made) => made,
            Err(why) => return println!("skipped: {test}: {why}"),
        };
        const ABSENT: &[Hook] = &[on("foretell_fork", Tracepoint("no_such_place"))];
        const THERE: &[Hook] = &[on("foretell_fork", Tracepoint("sched_process_fork"))];
        let sight = Sight { what: "forks", ways: &[ABSENT, THERE], required: true };
        let attached = attach(&object, &types, &sight);
        assert_eq!((attached.way, attached.tried.len()), (Some(1), 2));
        let sight = Sight { ways: &[ABSENT, ABSENT], ..sight };
        let error = attach(&object, &types, &sight).way().unwrap_err().to_string();
        assert!(error.contains("tp_btf/no_such_place"), "{error}");
    }

    #[test]
    fn the_objection_is_the_line_before_the_statistics() {
        let log = "0: (79) r6 = *(u64 *)(r1 +0)\nR1 invalid mem access 'scalar'\nverification time 81 usec\n\
                   stack depth 48\nprocessed 14 insns (limit 1000000) max_states_per_insn 0\n\n";
        assert_eq!(objection(log), Some("R1 invalid mem access 'scalar'"));
        assert_eq!(objection("processed 1 insns\n"), None);
        assert_eq!(objection(""), None);
    }
}
