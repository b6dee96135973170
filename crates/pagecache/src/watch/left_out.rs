//! Files that a job uses and that cannot be steered: the first of them is told of, and why.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::filesystems;

/// What was left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    first: Option<(PathBuf, &'static str)>,
    has_others: bool,
}

impl LeftOut {
    /// A file cannot be steered as it is `what`.
    pub(super) fn add(&mut self, path: &Path, what: &'static str) {
        // Nobody expects these to be steered, and a job that looks at itself has the kernel's open at times.
        if what == filesystems::OF_THE_KERNEL || is_memory(path) {
            return;
        }
        match &self.first {
            Some((first, _)) => self.has_others |= first != path,
            None => self.first = Some((path.to_owned(), what)),
        }
    }

    /// The first one, and why, in one line.
    pub(super) fn said(&self) -> Option<String> {
        let (path, what) = self.first.as_ref()?;
        let others = if self.has_others { ", and others that are used cannot be steered either" } else { "" };
        Some(format!("{} is {what}: it is left to the kernel{others}", path.display()))
    }
}

/// Memory that processes share, which bears the name of a file in their maps: what is mapped of nothing, memfd_create(2),
/// shmget(2).
fn is_memory(path: &Path) -> bool {
    let names: [&[u8]; 3] = [b"/dev/zero", b"/memfd:", b"/SYSV"];
    names.iter().any(|name| path.as_os_str().as_bytes().starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_is_told_of_and_memory_is_none() {
        let mut left_out = LeftOut::default();
        for name in ["/dev/zero", "/memfd:pool", "/SYSV00000000"] {
            left_out.add(Path::new(name), "on no disk of this machine");
        }
        left_out.add(Path::new("/proc/1/maps"), filesystems::OF_THE_KERNEL);
        assert_eq!(left_out.said(), None);
        for others in ["", ", and others that are used cannot be steered either"] {
            left_out.add(Path::new("/run/data"), "on no disk of this machine");
            let said = format!("/run/data is on no disk of this machine: it is left to the kernel{others}");
            assert_eq!(left_out.said(), Some(said));
            left_out.add(Path::new("/run/more"), "on no disk of this machine");
        }
    }
}
