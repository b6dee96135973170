//! Can the page cache be observed?

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{Mechanism, cache, remedy};
use crate::observe::kernel_types::KernelTypes;
use crate::observe::load::{
    Attached, Hook, SIGHTS, Sight, attach, create_maps, page_bytes, parse_object, prepare,
};
use crate::observe::object::Object;
use crate::observe::privileges::{Capabilities, Capability, pid_namespace};
use crate::observe::{FileKey, Observation, ObserveError, Observer, ObserverConfig};

pub(super) fn examine() -> Vec<Mechanism> {
    let mut mechanisms = vec![privileges(), process_numbers()];
    match parse_object() {
        Ok((object, types)) => {
            let name = "kernel type information (BTF)";
            mechanisms.push(Mechanism::works(name, "/sys/kernel/btf/vmlinux"));
            mechanisms.extend(places(object, &types));
        }
        Err(error) => {
            mechanisms.push(Mechanism::fails(
                "kernel type information (BTF)",
                error.to_string(),
                remedy(&error),
            ));
        }
    }
    mechanisms.push(round_trip());
    mechanisms
}

fn privileges() -> Mechanism {
    let name = "privileges for BPF";
    let capabilities = Capabilities::current();
    let all = [
        Capability::Bpf,
        Capability::Perfmon,
        Capability::SysAdmin,
        Capability::SysPtrace,
        Capability::SysNice,
    ];
    let held: Vec<_> = all.into_iter().filter(|one| capabilities.has(*one)).map(Capability::name).collect();
    match capabilities.lacking_for_bpf() {
        None => Mechanism::works(name, held.join(", ")),
        Some(lacking) => {
            let detail = format!("lacks {lacking}");
            Mechanism::fails(name, detail, remedy(&ObserveError::NotPermitted { lacking }))
        }
    }
}

fn process_numbers() -> Mechanism {
    let name = "process numbers";
    match pid_namespace() {
        Some(0) => Mechanism::works(name, "the kernel's, of the initial pid namespace"),
        Some(number) => Mechanism::works(name, format!("those of pid namespace {number}, a container's")),
        None => {
            let error = ObserveError::PidNamespace;
            Mechanism::fails(name, error.to_string(), remedy(&error))
        }
    }
}

/// Attaches every program for a moment, as it is done for a run.
fn places(mut object: Object, types: &KernelTypes) -> Vec<Mechanism> {
    let created = create_maps(&mut object, page_bytes(), &[("files", 1)]);
    match created.and_then(|()| prepare(&mut object, types)) {
        Ok(()) => {}
        Err(error) => {
            let hooks = SIGHTS.iter().flat_map(|sight| sight.ways[0]);
            let failed = |hook: &Hook| {
                Mechanism::fails(hook.place.to_string(), format!("not tried: {error}"), remedy(&error))
            };
            return hooks.map(failed).collect();
        }
    }
    SIGHTS.iter().flat_map(|sight| told(sight, attach(&object, types, sight))).collect()
}

/// What became of the ways to see something. What another way makes good for is no trouble.
fn told(sight: &Sight, attached: Attached) -> Vec<Mechanism> {
    let (way, tried) = (attached.way, attached.tried);
    let used =
        |hook: &Hook| way.is_some_and(|way| sight.ways[way].iter().any(|of| of.program == hook.program));
    let mechanisms = tried.into_iter().map(|(hook, done)| {
        let name = hook.place.to_string();
        match done {
            Ok(()) if used(&hook) => Mechanism::works(name, format!("loads and attaches: {}", sight.what)),
            Ok(()) => Mechanism::works(name, "loads and attaches").unused(),
            Err(error) => {
                let detail = match &error {
                    ObserveError::PlaceAbsent { .. } => "not in this kernel".to_owned(),
                    other => other.to_string(),
                };
                let mechanism = Mechanism::fails(name, detail, remedy(&error));
                if way.is_some() { Mechanism { remedy: None, ..mechanism } } else { mechanism }
            }
        }
    });
    mechanisms.collect()
}

/// Reads a byte of a file and waits for the record of it.
fn round_trip() -> Mechanism {
    let name = "ring buffer, from a read to its observation";
    let config = ObserverConfig { wake_every: 0, ..ObserverConfig::with_ring(page_bytes()) };
    let mut observer = match Observer::open(config) {
        Ok(observer) => observer,
        Err(error) => return Mechanism::fails(name, error.to_string(), remedy(&error)),
    };
    let seen = cache::scratch_file(1)
        .map_err(|error| error.to_string())
        .and_then(|file| is_seen(&mut observer, &file).map_err(|error| error.to_string()));
    match seen {
        Ok(true) => Mechanism::works(name, format!("reads are seen through {}", observer.read_hook())),
        Ok(false) => {
            let remedy = "report the file system and the kernel: buffered reads go unseen";
            Mechanism::fails(name, "a read was not seen", remedy)
        }
        Err(error) => Mechanism::fails(name, error, "see there"),
    }
}

fn is_seen(observer: &mut Observer, file: &File) -> Result<bool, Box<dyn std::error::Error>> {
    let key = FileKey::of(file)?;
    observer.manage(key)?;
    observer.track(std::process::id())?;
    file.read_at(&mut [0], 0)?;
    let mut seen = false;
    observer.drain(usize::MAX, |observation| {
        seen |= matches!(observation, Observation::Read { file, known: true, .. } if file == key);
    });
    Ok(seen)
}
