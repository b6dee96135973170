//! How long a translation may take, and how much memory: a build must not wait for one, and must not fail of one.
//!
//! The translation is a thread, and the driver looks at it every some milliseconds. When a limit is passed, the driver
//! goes on without it: the program stays what the compiler has made, and the thread ends with the command. What is
//! counted is processor time and not time, so that a build gives the same on a machine that is busy.
//!
//! The analysis itself has limits of work (`TooLarge`), which are reached at the same place each time; these here
//! are the last resort.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often the driver looks. In that time a thread can fill some 20 MB.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes of a page of `/proc/self/statm` and ticks a second of `/proc/self/stat`, as Linux gives them on the machines
/// that there is a clang for by package name (proc(5)); on one with larger pages the limit is higher.
const PAGE_BYTES: u64 = 4096;
const TICKS_PER_S: u64 = 100;

/// Why there is no result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Left {
    /// A limit was passed, and would be again.
    #[error("{0}")]
    Limit(String),
    /// The work itself says so.
    #[error("{0}")]
    Work(String),
}

/// What a translation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processor time, that of the front end included.
    pub processor_s: u64,
    /// Resident memory.
    pub memory_mib: u64,
}

impl Default for Limits {
    /// mawk, of 18,000 lines, takes 7 s and 0.5 GiB (docs/slice.md).
    fn default() -> Self {
        Self { processor_s: 10, memory_mib: 2048 }
    }
}

impl Limits {
    /// `FORETELL_CC_SECONDS` and `FORETELL_CC_MEMORY_MIB`; 0 means that nothing is translated.
    ///
    /// # Errors
    /// What is no number is named.
    pub(super) fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str, otherwise: u64| match get(name) {
            Some(text) if !text.is_empty() => {
                text.parse().map_err(|_| format!("{name}: {text:?} is not a whole number"))
            }
            _ => Ok(otherwise),
        };
        let usual = Self::default();
        Ok(Self {
            processor_s: number("FORETELL_CC_SECONDS", usual.processor_s)?,
            memory_mib: number("FORETELL_CC_MEMORY_MIB", usual.memory_mib)?,
        })
    }

    /// Runs `work` within the limits.
    ///
    /// # Errors
    /// Which limit was passed, what the work says, or that it panicked: a defect of the translator must not stop a build.
    pub(super) fn keep<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, Left> {
        let (sender, receiver) = channel();
        let began = processor_ticks();
        let spent = || (processor_ticks() - began) / TICKS_PER_S;
        let failed = || Err(Left::Work("the translator failed, which is a defect of it".to_owned()));
        let started = thread::Builder::new().spawn(move || {
            // Nobody may be there any more to take it.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
        });
        started.map_err(|e| Left::Work(format!("the translator does not start: {e}")))?;
        loop {
            if spent() >= self.processor_s {
                return Err(Left::Limit(format!(
                    "translating takes more than {} s of processor time (FORETELL_CC_SECONDS)",
                    self.processor_s
                )));
            }
            if memory_bytes() >> 20 >= self.memory_mib {
                return Err(Left::Limit(format!(
                    "translating takes more than {} MiB (FORETELL_CC_MEMORY_MIB)",
                    self.memory_mib
                )));
            }
            match receiver.recv_timeout(LOOK) {
                Ok(Ok(result)) => return result.map_err(Left::Work),
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return failed(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Processor time of this process and of those that it has waited for, in ticks (proc(5), fields 14 to 17 of stat).
fn processor_ticks() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may hold anything.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Resident memory of this process.
fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_within_the_limits_gives_its_result() {
        assert_eq!(Limits::default().keep(|| Ok(7)), Ok(7));
        assert_eq!(
            Limits::default().keep(|| Err::<(), _>("why".to_owned())),
            Err(Left::Work("why".to_owned()))
        );
    }

    #[test]
    fn a_panic_is_a_defect_and_no_end() {
        let said = Limits::default().keep::<()>(|| panic!("a defect")).unwrap_err().to_string();
        assert_eq!(said, "the translator failed, which is a defect of it");
    }

    #[test]
    fn what_passes_a_limit_is_left() {
        // Waits for ever, as nobody sends; the limits are passed at once.
        let endless = || {
            let (_keep, never) = channel::<()>();
            never.recv().map_err(|e| e.to_string())
        };
        let said = Limits { processor_s: 0, ..Limits::default() }.keep(endless).unwrap_err().to_string();
        assert!(said.contains("more than 0 s of processor time (FORETELL_CC_SECONDS)"), "{said}");
        let said = Limits { memory_mib: 1, ..Limits::default() }.keep(endless).unwrap_err().to_string();
        assert!(said.contains("more than 1 MiB (FORETELL_CC_MEMORY_MIB)"), "{said}");
    }

    #[test]
    fn settings_are_numbers() {
        let with = |text: &'static str| Limits::from_environment(move |_| Some(text.to_owned()));
        assert_eq!(with("5"), Ok(Limits { processor_s: 5, memory_mib: 5 }));
        assert_eq!(with(""), Ok(Limits::default()));
        assert_eq!(with("-1").unwrap_err(), "FORETELL_CC_SECONDS: \"-1\" is not a whole number");
    }
}
