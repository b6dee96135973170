//! What the programs read: made from a seed, or by the programs themselves from what is made so.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::random::Random;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Every text is made of these, each with a number: queries ask for `page_16` and the like.
const NAMES: [&str; 16] = [
    "page", "list", "lock", "node", "map", "read", "write", "queue", "table", "entry", "index", "slot",
    "cache", "block", "file", "inode",
];
/// Numbers of names.
const NUMBERS: u64 = 4000;

/// Where programs are looked for first: what packages install.
const PLACES: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Debian keeps each version of PostgreSQL in a place of its own.
const POSTGRESQL: &str = "/usr/lib/postgresql";

/// The search path of the scripts.
pub(super) fn search_path() -> String {
    let versions = std::fs::read_dir(POSTGRESQL).into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort();
    let mut places = PLACES.to_owned();
    for place in
        versions.iter().rev().map(|path| path.display().to_string()).chain(std::env::var("PATH").ok())
    {
        places.push(':');
        places.push_str(&place);
    }
    places
}

/// Where data are made, and how much of them.
pub(super) struct Maker<'a> {
    pub(super) directory: &'a Path,
    /// By this everything is less.
    pub(super) divisor: u64,
}

impl Maker<'_> {
    /// So many of what there are `full` of.
    fn count(&self, full: u64) -> u64 {
        (full / self.divisor).max(4)
    }

    /// The directory of the files.
    fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    fn write(&self, path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let all = || -> std::io::Result<()> {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
            write(&mut file)?;
            file.flush()
        };
        all().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Runs a script in the directory.
    fn shell(&self, script: &str) -> Result<()> {
        let mut command = Command::new("bash");
        command.args(["-o", "pipefail", "-ec", script]).current_dir(self.directory);
        let output =
            command.env("PATH", search_path()).env("LC_ALL", "C").output().context("cannot run bash")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "'{script}' ended with {}: {}", output.status, said.trim());
        Ok(())
    }

    /// Files of C, each of about this size; so many in a directory.
    fn write_sources(&self, count: u64, bytes: u64, in_a_directory: u64) -> Result<()> {
        for at in 0..self.count(count) {
            let name = format!("{:05}.c", at);
            let directory = self.files().join(format!("d{:03}", at / in_a_directory));
            // Half of the size to one and a half.
            let mut random = Random::new(at);
            let bytes = bytes / 2 + random.below(bytes);
            self.write(&directory.join(name), |file| file.write_all(source(&mut random, bytes).as_bytes()))?;
        }
        Ok(())
    }
}

fn name(random: &mut Random) -> (&'static str, u64) {
    let number = random.below(NUMBERS);
    (NAMES[number as usize % NAMES.len()], number)
}

/// Functions of C until there are so many bytes.
fn source(random: &mut Random, bytes: u64) -> String {
    let mut text = String::with_capacity(bytes as usize + 256);
    let mut word = |text: &mut String| {
        let (name, number) = name(random);
        // Writing into a string does not fail.
        let _ = write!(text, "{name}_{number}");
        number
    };
    while (text.len() as u64) < bytes {
        text.push_str("int ");
        word(&mut text);
        text.push_str("(int ");
        word(&mut text);
        text.push_str(")\n{\n");
        loop {
            text.push_str("\tif (");
            word(&mut text);
            text.push_str(" > 0) return ");
            let number = word(&mut text);
            text.push_str("(12);\n");
            if number % 8 == 0 {
                break;
            }
        }
        text.push_str("\treturn 0;\n}\n\n");
    }
    text
}

/// 1,500 files of some 100 KiB.
pub(super) fn sources(maker: &Maker) -> Result<()> {
    maker.write_sources(1500, 100 * KIB, 40)
}

/// 3,000 files of some 32 KiB.
pub(super) fn tree(maker: &Maker) -> Result<()> {
    maker.write_sources(3000, 32 * KIB, 12)
}

/// Sources with a cross-reference beside them, which is read when texts are looked for.
pub(super) fn cscope_sources(maker: &Maker) -> Result<()> {
    sources(maker)?;
    list_for_cscope(maker)
}

pub(super) fn cscope_small_sources(maker: &Maker) -> Result<()> {
    maker.write_sources(2000, 24 * KIB, 40)?;
    list_for_cscope(maker)
}

/// A cross-reference of all files: of it a query for texts takes their names, and reads the files.
fn list_for_cscope(maker: &Maker) -> Result<()> {
    maker.shell("find files -type f | sort > list; cscope -b -c -k -i list; rm list")
}

/// A cross-reference of some 100 MiB, without the sources.
pub(super) fn cross_reference(maker: &Maker) -> Result<()> {
    maker.write_sources(1000, 100 * KIB, 40)?;
    maker.shell("find files -type f | sort > list; cscope -b -c -k -i list -f cross; rm -r files list; mkdir files; mv cross files/cscope.out")
}

/// Texts and an index of them.
pub(super) fn glimpse(maker: &Maker) -> Result<()> {
    maker.write_sources(4000, 16 * KIB, 40)?;
    maker.shell("mkdir index; glimpseindex -H $PWD/index -o $PWD/files")
}

/// A capture of packets in the format of libpcap, 120 MiB: TCP and UDP over IPv4, with a few hosts and ports.
pub(super) fn capture(maker: &Maker) -> Result<()> {
    const PORTS: [u16; 6] = [80, 443, 53, 22, 8080, 25];
    let packets = maker.count(240_000);
    maker.write(&maker.files().join("capture.pcap"), |file| {
        // Magic number, version 2.4, time zone, accuracy, longest packet, Ethernet.
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
            file.write_all(&word.to_le_bytes())?;
        }
        let mut random = Random::new(1);
        for at in 0..packets {
            let length = 60 + random.below(900) as u16;
            for word in [at as u32 / 1000, (at % 1000) as u32 * 1000, length.into(), length.into()] {
                file.write_all(&word.to_le_bytes())?;
            }
            let mut packet = vec![0u8; length.into()];
            packet[12] = 8;
            let udp = random.below(4) == 0;
            packet[14] = 0x45;
            packet[16..18].copy_from_slice(&(length - 14).to_be_bytes());
            packet[22] = 64;
            packet[23] = if udp { 17 } else { 6 };
            for address in [26, 30] {
                packet[address] = 10;
                packet[address + 2] = random.below(4) as u8;
                packet[address + 3] = random.below(16) as u8;
            }
            let port = PORTS[random.below(PORTS.len() as u64) as usize];
            packet[34..36].copy_from_slice(&(1024 + random.below(60_000) as u16).to_be_bytes());
            packet[36..38].copy_from_slice(&port.to_be_bytes());
            if udp {
                packet[38..40].copy_from_slice(&(length - 34).to_be_bytes());
            } else {
                packet[46] = 0x50;
            }
            file.write_all(&packet)?;
        }
        Ok(())
    })
}

/// Objects with code that calls from one to the next, and much that is only copied, as debugging information is.
pub(super) fn objects(maker: &Maker) -> Result<()> {
    let count = maker.count(1000);
    let mut list = String::new();
    for at in 0..count {
        let mut random = Random::new(at);
        let blob = maker.directory.join("blob");
        let bytes = 20 * KIB + random.below(130 * KIB);
        maker.write(&blob, |file| random_bytes(file, &mut random, bytes))?;
        let mut text = String::from(".text\n");
        for function in 0..40 {
            let _ = write!(text, ".globl f_{0}\nf_{0}:\n", at * 40 + function);
            for _ in 0..8 {
                let _ = writeln!(text, "call f_{}", random.below(count * 40));
            }
            text.push_str("ret\n");
        }
        text.push_str(".section .notes,\"\"\n.incbin \"blob\"\n");
        maker.write(&maker.directory.join("code.s"), |file| file.write_all(text.as_bytes()))?;
        let object = format!("files/{at:05}.o");
        if at == 0 {
            std::fs::create_dir(maker.files())?;
        }
        maker.shell(&format!("as -o {object} code.s"))?;
        let _ = writeln!(list, "{object}");
    }
    maker.write(&maker.directory.join("objects"), |file| file.write_all(list.as_bytes()))?;
    maker.shell("rm blob code.s")
}

fn random_bytes(file: &mut dyn Write, random: &mut Random, bytes: u64) -> std::io::Result<()> {
    (0..bytes / 8).try_for_each(|_| file.write_all(&random.next().to_le_bytes()))
}

/// 120 MiB of lines in eight files.
pub(super) fn lines(maker: &Maker) -> Result<()> {
    for at in 0..8 {
        maker.write(&maker.files().join(format!("{at}")), |file| {
            let mut random = Random::new(at);
            for _ in 0..maker.count(300_000) {
                let (word, number) = name(&mut random);
                writeln!(file, "{:016x} {word}_{number} {:08x}", random.next(), random.below(1 << 32))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// A file of 160 tensors in the format of safetensors, 160 MiB.
pub(super) fn tensors(maker: &Maker) -> Result<()> {
    let bytes = (MIB / maker.divisor).next_multiple_of(8);
    let tensor = |at: u64| {
        format!(
            "\"t{at:03}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
            bytes / 4,
            at * bytes,
            (at + 1) * bytes
        )
    };
    let tensors: Vec<String> = (0..160).map(tensor).collect();
    let header = format!("{{{}}}", tensors.join(","));
    maker.write(&maker.files().join("model.safetensors"), |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        random_bytes(file, &mut Random::new(2), 160 * bytes)
    })
}

/// A file of samples, 128 MiB.
pub(super) fn samples(maker: &Maker) -> Result<()> {
    maker.write(&maker.files().join("samples"), |file| {
        random_bytes(file, &mut Random::new(3), 128 * MIB / maker.divisor)
    })
}

/// Two tables in no order of their keys, with indexes of them.
pub(super) fn postgres(maker: &Maker) -> Result<()> {
    let rows = maker.count(400_000);
    std::fs::create_dir(maker.files())?;
    maker.shell(&format!(
        "as_postgres() {{ setpriv --reuid=postgres --regid=postgres --clear-groups \"$@\"; }}
        chown postgres: files; chmod 700 files
        as_postgres initdb -D files -N >/dev/null
        as_postgres pg_ctl -D files -w -l files/log -o \"-k $PWD/files -c listen_addresses= -c fsync=off\" start >/dev/null
        as_postgres psql -v ON_ERROR_STOP=1 -h $PWD/files -qtA postgres -c \"\
            CREATE TABLE a AS SELECT i AS id, i * 7919::bigint % {rows} AS k FROM generate_series(1, {few}) i;
            CREATE TABLE b AS SELECT i * 104729::bigint % {rows} AS k, i % 1000 AS v, repeat(md5(i::text), 4) AS t
                FROM generate_series(1, {rows}) i;
            CREATE INDEX ON b (k);\"
        as_postgres psql -h $PWD/files -qtA postgres -c 'VACUUM ANALYZE'
        as_postgres pg_ctl -D files -w -m fast stop >/dev/null",
        few = rows / 20
    ))
}

/// A table of 130 MiB by its number, and how many rows are looked up.
pub(super) fn sqlite(maker: &Maker) -> Result<()> {
    let rows = maker.count(500_000);
    std::fs::create_dir(maker.files())?;
    maker.shell(&format!(
        "echo {look_ups} > look-ups; sqlite3 files/rows.db \"\
        PRAGMA journal_mode = off; PRAGMA synchronous = off; CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
        INSERT INTO t SELECT i, printf('%0*d', 180 + i * 7919 % 121, i) FROM n;\"",
        look_ups = maker.count(4000)
    ))
}

/// Sources, and what makes a sum of each, with a header that all of them take.
pub(super) fn makefile(maker: &Maker) -> Result<()> {
    maker.write_sources(800, 150 * KIB, 40)?;
    let header = source(&mut Random::new(4), 50 * KIB);
    maker.write(&maker.directory.join("common.h"), |file| file.write_all(header.as_bytes()))?;
    let rules = "O := $(patsubst $(F)/%.c,%,$(wildcard $(F)/*/*.c))\nall: $(O)\n\
        $(O): %: $(F)/%.c\n\t@cat common.h $< | cksum > out/$(subst /,-,$@)\n.PHONY: $(O)\n";
    maker.write(&maker.directory.join("Makefile"), |file| file.write_all(rules.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_come_from_their_seed() {
        let text = source(&mut Random::new(7), 10_000);
        assert_eq!(text, source(&mut Random::new(7), 10_000));
        assert_ne!(text, source(&mut Random::new(8), 10_000));
        assert!((10_000..11_000).contains(&text.len()), "{}", text.len());
    }

    #[test]
    fn shrunken_data_are_less() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = |divisor: u64| {
            let directory = directory.path().join(divisor.to_string());
            capture(&Maker { directory: &directory, divisor }).unwrap();
            std::fs::metadata(directory.join("files/capture.pcap")).unwrap().len()
        };
        let (some, few) = (bytes(1000), bytes(4000));
        assert!(few * 3 < some && some < few * 5, "{some} {few}");
    }
}
