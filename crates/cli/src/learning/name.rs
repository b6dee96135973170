//! What a job is called that nobody has named.
//!
//! By its program, and by eight digits that stand for its arguments and the directory in which it runs. Digits in
//! them count as one `0` each run, so that a job that is given tonight's date is last night's job.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Letters of the program's name that are kept.
const PROGRAM_BYTES: usize = 40;

/// The name of a job: `nightly.sh-1f2e3d4c`.
#[must_use]
pub fn job_name(program: &OsStr, arguments: &[OsString], directory: &Path) -> String {
    let base = Path::new(program).file_name().unwrap_or(program);
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let kept = base.as_bytes().iter().map(|&byte| if good(byte) { char::from(byte) } else { '_' });
    let kept: String = kept.take(PROGRAM_BYTES).collect();
    let kept = kept.trim_start_matches('.');
    let mut sum = Sum::default();
    for part in arguments.iter().map(OsString::as_os_str).chain([program, directory.as_os_str()]) {
        sum.add(part.as_bytes());
    }
    format!("{}-{:08x}", if kept.is_empty() { "job" } else { kept }, sum.0 as u32)
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits, over parts whose runs of digits count as one.
struct Sum(u64);

impl Default for Sum {
    fn default() -> Sum {
        Sum(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    fn add(&mut self, part: &[u8]) {
        let mut in_digits = false;
        for &byte in part {
            let is_digit = byte.is_ascii_digit();
            if !(is_digit && in_digits) {
                self.byte(if is_digit { b'0' } else { byte });
            }
            in_digits = is_digit;
        }
        // No byte of an argument: the end of a part.
        self.byte(0);
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(program: &str, arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        job_name(OsStr::new(program), &arguments, Path::new("/srv"))
    }

    #[test]
    fn the_same_job_has_the_same_name_whatever_the_date() {
        let monday = name("/opt/nightly.sh", &["--day", "2026-11-23"]);
        assert!(monday.starts_with("nightly.sh-") && foretell_learn::is_name(&monday), "{monday}");
        assert_eq!(monday, name("/opt/nightly.sh", &["--day", "2026-12-1"]));
        assert_ne!(monday, name("/opt/nightly.sh", &["--week", "2026-11-23"]));
        assert_ne!(monday, name("/opt/nightly.sh", &["--day2026-11-23"]));
    }

    #[test]
    fn every_program_has_a_name_that_is_one() {
        for program in ["..", "a b", "", "\u{e4}", &"x".repeat(300), "-"] {
            let name = name(program, &[]);
            assert!(foretell_learn::is_name(&name), "{name}");
        }
    }
}
