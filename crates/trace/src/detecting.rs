//! Which format a file is in.

use std::path::Path;

use crate::error::{TraceError, excerpt};
use crate::format::{Format, by_extension};
use crate::{store, text};

impl Format {
    /// The format of a file called `path` that begins, decompressed, with `beginning`: by extension
    /// (after `.gz`, `.zst`), else by its first line that says something, else by its bytes.
    pub(crate) fn detect(path: &Path, beginning: &[u8]) -> Result<Format, TraceError> {
        if beginning.starts_with(&store::MAGIC) {
            return Ok(Format::Foretell);
        }
        if foretell_recording::is_recording(beginning) {
            return Ok(Format::Recording);
        }
        if let Some(format) = by_extension(path) {
            return Ok(format);
        }
        if text::oracle_general::plausible(beginning) {
            return Ok(Format::OracleGeneral);
        }
        let lines = beginning.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let notes: [&[u8]; 2] = [b"*", b"strace: "];
        let mut telling =
            lines.filter(|line| !line.is_empty() && !notes.iter().any(|note| line.starts_with(note)));
        let (Some(first), second) = (telling.next(), telling.next()) else {
            return Err(TraceError::Unrecognised {
                path: path.to_string_lossy().into(),
                found: if beginning.is_empty() { "nothing".into() } else { excerpt(beginning) },
            });
        };
        text::detect(first, second).ok_or_else(|| TraceError::Unrecognised {
            path: path.to_string_lossy().into(),
            found: format!("`{}`", excerpt(first)).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(name: &str, beginning: &str) -> Option<Format> {
        Format::detect(Path::new(name), beginning.as_bytes()).ok()
    }

    #[test]
    fn formats_are_told_by_their_first_line() {
        for (format, line) in [
            (Format::Lirs, "*\n  17\n"),
            (Format::LibCacheSimCsv, "# time, object, size\n1,2,3\n"),
            (Format::LibCacheSimCsv, "1,2,3\n"),
            (Format::Msr, "128166372003061629,usr,0,Read,7014609920,24576,41286\n"),
            (Format::Spc, "0,303567,3584,w,0.000000\n"),
            (Format::DiskSim, "0.5 0 1000 8 1\n"),
            (Format::Blkparse, "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n"),
            (Format::FioIolog, "fio version 3 iolog\n9 a.dat add\n"),
            (
                Format::Strace,
                "7023  1795296018.879613 openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY) = 3\n",
            ),
            (Format::Strace, "1795296018.879613 read(3, \"\", 10) = 0\n"),
            (Format::Strace, "[pid  7023] 1795296018.879613 read(3,  <unfinished ...>\n"),
        ] {
            assert_eq!(detected("trace.txt", line), Some(format), "{line}");
        }
        assert_eq!(detected("trace.txt", "hello world\n"), None);
        assert_eq!(detected("trace.txt", ""), None);
    }

    #[test]
    fn a_recording_is_told_by_its_beginning_whatever_its_name() {
        assert_eq!(detected("night.lirs", "foretell-recording\0\u{1}\0"), Some(Format::Recording));
    }

    #[test]
    fn extensions_decide_below_compression() {
        assert_eq!(detected("w.oracleGeneral.bin.zst", ""), Some(Format::OracleGeneral));
        assert_eq!(detected("w.oracleGeneral.zst", ""), Some(Format::OracleGeneral));
        assert_eq!(detected("dir.spc/w.lirs.gz", "0,1,2,r,0\n"), Some(Format::Lirs));
    }
}
