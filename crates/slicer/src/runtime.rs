//! The runtime's C sources, carried by the translator: written out beside translated programs, or compiled
//! into them by [`crate::driver`].

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::error::Error;

/// The file to compile; it includes the others.
pub const RUNTIME_SOURCE: &str = "foretell_slice.c";

/// The file beside it that may be compiled, too: functions that are looked up when they are called first.
pub(crate) const LATE_SOURCE: &str = "foretell_late.c";

/// The functions of [`LATE_SOURCE`], in the order of their places.
pub(crate) fn late_names() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("../runtime/foretell_late.c").lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("LATE(")?.split_once(')')?.0.split_once(", "))
        .enumerate()
        .filter_map(|(number, (place, name))| (place.parse() == Ok(number)).then_some(name))
}

/// Names and contents of the runtime's files.
const FILES: &[(&str, &str)] = &[
    ("foretell_slice.h", include_str!("../runtime/foretell_slice.h")),
    (RUNTIME_SOURCE, include_str!("../runtime/foretell_slice.c")),
    (LATE_SOURCE, include_str!("../runtime/foretell_late.c")),
    ("slice_state.h", include_str!("../runtime/slice_state.h")),
    ("slice_library.h", include_str!("../runtime/slice_library.h")),
    ("slice_trace.h", include_str!("../runtime/slice_trace.h")),
    ("slice_early.h", include_str!("../runtime/slice_early.h")),
    ("slice_real.h", include_str!("../runtime/slice_real.h")),
    ("slice_changes.h", include_str!("../runtime/slice_changes.h")),
    ("slice_real_stream.h", include_str!("../runtime/slice_real_stream.h")),
    ("slice_mapped.h", include_str!("../runtime/slice_mapped.h")),
    ("slice_service.h", include_str!("../runtime/slice_service.h")),
    ("slice_device.h", include_str!("../runtime/slice_device.h")),
    ("slice_queue.h", include_str!("../runtime/slice_queue.h")),
    ("slice_worth.h", include_str!("../runtime/slice_worth.h")),
    ("slice_predict.h", include_str!("../runtime/slice_predict.h")),
    ("slice_written.h", include_str!("../runtime/slice_written.h")),
    ("slice_made.h", include_str!("../runtime/slice_made.h")),
    ("slice_open.h", include_str!("../runtime/slice_open.h")),
    ("slice_descriptor.h", include_str!("../runtime/slice_descriptor.h")),
    ("slice_stream.h", include_str!("../runtime/slice_stream.h")),
    ("slice_channel.h", include_str!("../runtime/slice_channel.h")),
    ("slice_input.h", include_str!("../runtime/slice_input.h")),
    ("slice_identity.h", include_str!("../runtime/slice_identity.h")),
    ("slice_start.h", include_str!("../runtime/slice_start.h")),
    ("slice_begin.h", include_str!("../runtime/slice_begin.h")),
];

/// Hashes the whole text of the runtime.
pub(crate) fn hash_runtime(hasher: &mut impl std::hash::Hasher) {
    use std::hash::Hash as _;
    FILES.hash(hasher);
}

/// Writes the runtime into `folder`, which is made if it is not there: [`RUNTIME_SOURCE`], the header
/// `foretell_slice.h` that translated programs include, and the parts.
///
/// # Errors
/// [`Error::File`] names the file that cannot be written.
pub fn write_runtime(folder: &Path) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |reason| Error::File { path, reason }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    for (name, text) in FILES {
        let path = folder.join(name);
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed(&path))?;
        file.write_all(text.as_bytes()).map_err(failed(&path))?;
        file.persist(&path).map_err(|e| Error::File { path: path.clone(), reason: e.error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_included_is_written() {
        let folder = tempfile::tempdir().unwrap();
        write_runtime(folder.path()).unwrap();
        for (_, text) in FILES {
            for line in text.lines() {
                if let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
                    assert!(folder.path().join(name).exists(), "{name}");
                }
            }
        }
    }
}
