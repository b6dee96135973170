//! Can the page cache be observed?

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{Mechanism, cache, remedy};
use crate::observe::load::{
    HOOKS, Hook, READ_FENTRY, READ_TRACEPOINT, attach, attach_fentry, has_tracepoint, kernel_types,
    open_object, page_bytes,
};
use crate::observe::privileges::{Capabilities, Capability, in_initial_pid_namespace};
use crate::observe::{FileKey, Observation, ObserveError, Observer, ObserverConfig};

pub(super) fn examine() -> Vec<Mechanism> {
    let mut mechanisms = vec![privileges(), pid_namespace()];
    match kernel_types() {
        Ok(types) => {
            let name = "kernel type information (BTF)";
            mechanisms.push(Mechanism::works(name, "/sys/kernel/btf/vmlinux"));
            mechanisms.extend(tracepoints(&types));
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

fn pid_namespace() -> Mechanism {
    let name = "process numbers as the kernel's";
    if in_initial_pid_namespace() {
        return Mechanism::works(name, "the initial pid namespace");
    }
    Mechanism::fails(name, "in a pid namespace of its own", remedy(&ObserveError::PidNamespace))
}

/// Attaches every program for a moment.
fn tracepoints(types: &aya::Btf) -> Vec<Mechanism> {
    let name = |hook: &Hook| format!("tp_btf/{}", hook.tracepoint);
    let fentry_name = format!("fentry/{}", READ_FENTRY.1);
    let hooks = || std::iter::once(&READ_TRACEPOINT).chain(&HOOKS);
    let mut object = match open_object(aya::EbpfLoader::new(), page_bytes(), 1) {
        Ok(object) => object,
        Err(error) => {
            let failed = |name| Mechanism::fails(name, format!("not tried: {error}"), remedy(&error));
            return hooks().map(name).map(failed).collect();
        }
    };
    let mut mechanisms: Vec<_> = hooks()
        .map(|hook| {
            if !has_tracepoint(types, hook.tracepoint) {
                let absent = ObserveError::TracepointAbsent { name: hook.tracepoint };
                return Mechanism::fails(name(hook), "not in this kernel", remedy(&absent));
            }
            match attach(&mut object, types, hook) {
                Ok(()) => Mechanism::works(name(hook), "loads and attaches"),
                Err(error) => Mechanism::fails(name(hook), error.to_string(), remedy(&error)),
            }
        })
        .collect();
    let first_choice = mechanisms.first().is_some_and(|read| read.works);
    mechanisms.push(match attach_fentry(&mut object, types) {
        Ok(()) if first_choice => {
            Mechanism::works(fentry_name, "loads and attaches; the fallback for mm_filemap_get_pages")
                .unused()
        }
        Ok(()) => Mechanism::works(fentry_name, "loads and attaches, in place of mm_filemap_get_pages"),
        Err(error) if first_choice => {
            let reason = match error {
                ObserveError::ReadHookRefused { reason, .. } => reason,
                other => other.to_string(),
            };
            Mechanism {
                name: fentry_name,
                works: false,
                detail: format!("refused ({reason}), and not needed here"),
                used: false,
                remedy: None,
            }
        }
        Err(error) => Mechanism::fails(fentry_name, error.to_string(), remedy(&error)),
    });
    mechanisms
}

/// Reads a byte of a file and waits for the record of it.
fn round_trip() -> Mechanism {
    let name = "ring buffer, from a read to its observation";
    let config = ObserverConfig { ring_bytes: page_bytes(), wake_every: 0, watch_only: false };
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
