//! `foretell model advise --apply` and `--undo` on a loop device of the test's own.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::path::PathBuf;
use std::process::Command;

use harness::{Ended, foretell};

/// A loop device over a file; gone, with what was set on it put back, also when the test fails.
struct Loop {
    device: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    /// `None`, having said so, where there can be none.
    fn new(test: &str) -> Option<Loop> {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(64 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output();
        match made {
            Ok(made) if made.status.success() => {
                let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
                Some(Loop { device, _file: file })
            }
            _ => {
                println!("skipped: {test}: no loop device can be made here");
                None
            }
        }
    }

    fn name(&self) -> String {
        self.device.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn setting(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{file}", self.name()))
    }

    fn read_ahead_kb(&self) -> String {
        std::fs::read_to_string(self.setting("read_ahead_kb")).unwrap().trim().to_owned()
    }

    fn set_read_ahead_kb(&self, kb: &str) {
        std::fs::write(self.setting("read_ahead_kb"), kb).unwrap();
    }

    fn apply(&self) -> Ended {
        let workload = "sequential,bytes=256M,streams=4,think_us=500";
        let device = self.device.to_str().unwrap();
        foretell(["model", "advise", "--device", "disk7200", "--workload", workload, "--apply", device])
    }

    fn undo(&self) -> Ended {
        foretell(["model", "advise", "--undo", self.device.to_str().unwrap()])
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.undo();
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn ok(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn advice_is_set_shown_and_put_back() {
    let Some(device) = Loop::new("advice_is_set_shown_and_put_back") else { return };
    // Linux 6.18 begins with 8192, which is as good for this workload.
    device.set_read_ahead_kb("128");
    let said = ok(device.apply());
    assert!(said.contains(&format!("{}: read_ahead_kb: 128 -> 1024", device.name())), "{said}");
    assert!(said.contains("--undo /dev/loop"), "{said}");
    assert_eq!(device.read_ahead_kb(), "1024");
    let again = ok(device.apply());
    assert!(again.contains("nothing that can be set there"), "{again}");
    let said = ok(device.undo());
    assert!(said.contains("1024 -> 128, as it was"), "{said}");
    assert_eq!(device.read_ahead_kb(), "128");
    assert!(ok(device.undo()).contains("nothing was set there"));
}

/// Larger windows than advised cost nothing here: they are not made smaller.
#[test]
fn what_is_set_as_well_as_advised_stays() {
    let Some(device) = Loop::new("what_is_set_as_well_as_advised_stays") else { return };
    device.set_read_ahead_kb("4096");
    let said = ok(device.apply());
    assert!(said.contains("nothing that can be set there would make it 3% faster"), "{said}");
    assert_eq!(device.read_ahead_kb(), "4096");
}

#[test]
fn what_somebody_else_sets_meanwhile_stays() {
    let Some(device) = Loop::new("what_somebody_else_sets_meanwhile_stays") else { return };
    device.set_read_ahead_kb("128");
    ok(device.apply());
    device.set_read_ahead_kb("300");
    assert!(ok(device.undo()).contains("left at 300"));
    assert_eq!(device.read_ahead_kb(), "300");
}

#[test]
fn what_cannot_be_set_is_refused_before_anything_is_said() {
    let refused = |arguments: &[&str], says: &str| {
        let ended = foretell([&["model", "advise"], arguments].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    };
    let advise = ["--device", "nvme", "--workload", "random,bytes=1M"];
    refused(
        &[&advise[..], &["--apply", "/no/such/device"]].concat(),
        "--apply: /no/such/device: No such file",
    );
    refused(&[&advise[..], &["--apply", "/proc/self/stat"]].concat(), "lies on no block device");
    refused(&["--undo", "/no/such/device"], "--undo: /no/such/device: No such file");
    refused(&[&advise[..], &["--rate", "50%"]].concat(), "give bytes a second");
    refused(&[&advise[..], &["--rate", "500G"]].concat(), "no number of streams gets 500G");
    refused(&["--device", "nvme"], "--workload");
    refused(&[], "--device <NAME|FILE>");
}
