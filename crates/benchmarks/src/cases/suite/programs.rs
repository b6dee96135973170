//! The programs: one entry each.
//!
//! A night is a script for bash in the directory of the data, which are in `$FILES`. Queries name what `data.rs` writes into
//! every text.

use std::path::Path;

use anyhow::Result;

use super::data::{self, Maker, search_path};
use super::wanted::ChangeKind;

/// What is different on the third night.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// This script in place of the night's: it asks for something else.
    Query(&'static str),
    /// This script in place of the night's: it reads the same in another order.
    Order(&'static str),
    /// One file in twenty is replaced by another one.
    Files,
    /// The directory of the files bears another name.
    Names,
}

impl Change {
    pub(super) fn kind(self) -> ChangeKind {
        match self {
            Change::Query(_) => ChangeKind::Query,
            Change::Order(_) => ChangeKind::Order,
            Change::Files => ChangeKind::Files,
            Change::Names => ChangeKind::Names,
        }
    }
}

/// A program and what it does at night.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The commands that it takes, each with the package (of Debian) that brings it.
    pub(super) needs: &'static [(&'static str, &'static str)],
    pub(super) make: fn(&Maker) -> Result<()>,
    /// How much less of it there is on a disk with an arm, so that it takes seconds and not minutes.
    pub(super) less_for_an_arm: u64,
    /// Memory that the program itself takes, MiB.
    pub(super) own_mib: u64,
    pub(super) night: &'static str,
    /// The first of them is what changes, unless another is asked for.
    pub(super) changes: &'static [Change],
}

impl Program {
    /// What is missing to run it: a command and its package.
    pub(super) fn missing(&self) -> Option<(&'static str, &'static str)> {
        self.needs.iter().copied().find(|(command, _)| !is_installed(command))
    }

    /// The change that is asked for; `None` if it makes no sense of this program.
    pub(super) fn change(&self, kind: Option<ChangeKind>) -> Option<Change> {
        self.changes.iter().copied().find(|change| kind.is_none_or(|kind| change.kind() == kind))
    }
}

fn is_installed(command: &str) -> bool {
    search_path().split(':').any(|place| Path::new(place).join(command).is_file())
}

const TAR: (&str, &str) = ("tar", "tar");
const GREP: (&str, &str) = ("grep", "grep");
const FIND: (&str, &str) = ("find", "findutils");
const CSCOPE: (&str, &str) = ("cscope", "cscope");
const AS: (&str, &str) = ("as", "binutils");
const PYTHON: (&str, &str) = ("python3", "python3");
const POSTGRES: [(&str, &str); 3] =
    [("postgres", "postgresql"), ("psql", "postgresql-client"), ("setpriv", "util-linux")];

/// Starts the server of the database in `$FILES`, runs `$SQL`, and ends it.
macro_rules! postgres {
    ($sql:literal) => {
        concat!(
            "as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups \"$@\"; }; ",
            "as_postgres pg_ctl -D $FILES -w -l $FILES/log -o \"-k $PWD/$FILES -c listen_addresses=\" start >/dev/null; ",
            "as_postgres psql -h $PWD/$FILES -qtA postgres -c \"",
            $sql,
            "\" | cksum; as_postgres pg_ctl -D $FILES -w -m fast stop >/dev/null"
        )
    };
}

/// Reads samples of a file in a shuffled order, epoch after epoch.
macro_rules! epochs {
    ($seed:literal) => {
        concat!(
            "python3 -c '
import os, random, zlib
path = os.environ[\"FILES\"] + \"/samples\"
size, sum, at, samples = os.path.getsize(path), 0, 0, []
lengths = random.Random(0)
while at < size:
    samples.append((at, lengths.randrange(64 << 10, 128 << 10)))
    at += samples[-1][1]
file = os.open(path, os.O_RDONLY)
for epoch in range(3):
    random.Random(",
            $seed,
            " + epoch).shuffle(samples)
    for at, length in samples:
        sum = zlib.crc32(os.pread(file, length, at), sum)
print(sum)'"
        )
    };
}

/// Maps a file of tensors, and reads them in the order of its header or in another, four times.
macro_rules! tensors {
    ($order:literal) => {
        concat!(
            "python3 -c '
import json, mmap, os, zlib
for load in range(4):
    sum = 0
    with open(os.environ[\"FILES\"] + \"/model.safetensors\", \"rb\") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    start = 8 + int.from_bytes(data[:8], \"little\")
    header = json.loads(bytes(data[8:start]))
    for name in ",
            $order,
            ":
        begin, end = header[name][\"data_offsets\"]
        sum = zlib.crc32(data[start + begin:start + end], sum)
    print(sum)'"
        )
    };
}

/// Looks rows up by keys in no order.
macro_rules! look_ups {
    ($seed:literal) => {
        concat!(
            "n=$(cat look-ups); echo \"WITH RECURSIVE k(i, v) AS (SELECT 1, ",
            $seed,
            " UNION ALL SELECT i + 1, (v * 1103515245 + 12345) % 2147483648 FROM k WHERE i < $n)
SELECT total(length(body)), count(*) FROM k JOIN t ON t.id = 1 + v / 64 % (SELECT max(id) FROM t);\" |
sqlite3 $FILES/rows.db | cksum"
        )
    };
}

/// All of them.
pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "cscope, symbols",
        needs: &[CSCOPE],
        make: data::cross_reference,
        less_for_an_arm: 1,
        own_mib: 4,
        night: "for name in page_16 read_117 index_218 inode_319 map_420 entry_521; \
            do cscope -d -f $FILES/cscope.out -L0 $name; done | cksum",
        changes: &[
            Change::Query(
                "for name in file_30 node_131 table_232; do cscope -d -f $FILES/cscope.out -L0 $name; done | cksum",
            ),
            Change::Names,
        ],
    },
    Program {
        name: "tcpdump, filters",
        needs: &[("tcpdump", "tcpdump")],
        make: data::capture,
        less_for_an_arm: 1,
        own_mib: 8,
        night: "for filter in 'tcp port 80' 'udp' 'host 10.0.1.7' 'net 10.0.2.0/24' 'greater 1000' 'tcp port 443 and host 10.0.0.9'; \
            do tcpdump -Z root -nqr $FILES/capture.pcap \"$filter\" 2>/dev/null | cksum; done",
        changes: &[Change::Query(
            "for filter in 'udp port 53' 'less 100' 'host 10.0.3.1'; \
            do tcpdump -Z root -nqr $FILES/capture.pcap \"$filter\" 2>/dev/null | cksum; done",
        )],
    },
    Program {
        name: "cscope, text",
        needs: &[CSCOPE],
        make: data::cscope_sources,
        less_for_an_arm: 2,
        own_mib: 8,
        night: "for word in page_16 list_17 lock_18 node_19; do cscope -d -L4 $word; done | cksum",
        changes: &[
            Change::Query("for word in cache_28 block_29 file_30; do cscope -d -L4 $word; done | cksum"),
            Change::Files,
        ],
    },
    Program {
        name: "cscope, text, small files",
        needs: &[CSCOPE],
        make: data::cscope_small_sources,
        less_for_an_arm: 3,
        own_mib: 8,
        night: "for word in page_16 list_17 lock_18; do cscope -d -L4 $word; done | cksum",
        changes: &[
            Change::Files,
            Change::Query("for word in cache_28 block_29; do cscope -d -L4 $word; done | cksum"),
        ],
    },
    Program {
        name: "ripgrep",
        needs: &[("rg", "ripgrep")],
        make: data::sources,
        less_for_an_arm: 4,
        own_mib: 12,
        night: "for word in page_16 list_17 lock_18 node_19; do rg -j2 -c $word $FILES | sort; done | cksum",
        changes: &[
            Change::Names,
            Change::Query("for word in cache_28 block_29; do rg -j2 -c $word $FILES | sort; done | cksum"),
            Change::Files,
        ],
    },
    Program {
        name: "glimpse",
        needs: &[("glimpse", "glimpse"), ("glimpseindex", "glimpse")],
        make: data::glimpse,
        less_for_an_arm: 4,
        own_mib: 8,
        night: "for word in page_16 list_17 lock_18 node_19; do glimpse -H index -y $word; done | cksum",
        changes: &[Change::Query(
            "for word in cache_28 inode_31 table_40; do glimpse -H index -y $word; done | cksum",
        )],
    },
    Program {
        name: "ld.bfd",
        needs: &[("ld.bfd", "binutils"), AS],
        make: data::objects,
        less_for_an_arm: 4,
        own_mib: 80,
        night: "ld.bfd -e f_0 -o out @objects && cksum out; rm out",
        changes: &[Change::Order(
            "sort -r objects > turned; ld.bfd -e f_0 -o out @turned && cksum out; rm out turned",
        )],
    },
    Program {
        name: "ld.lld",
        needs: &[("ld.lld", "lld"), AS],
        make: data::objects,
        less_for_an_arm: 4,
        own_mib: 40,
        night: "ld.lld --threads=2 -e f_0 -o out @objects && cksum out; rm out",
        changes: &[Change::Order(
            "sort -r objects > turned; ld.lld --threads=2 -e f_0 -o out @turned && cksum out; rm out turned",
        )],
    },
    Program {
        name: "GNU sort",
        needs: &[("sort", "coreutils")],
        make: data::lines,
        less_for_an_arm: 1,
        own_mib: 16,
        night: "sort -S 12M --parallel=1 -T . $FILES/* | cksum",
        changes: &[
            Change::Files,
            Change::Names,
            Change::Query("sort -S 12M --parallel=1 -T . -k2 $FILES/* | cksum"),
        ],
    },
    Program {
        name: "safetensors, mapped",
        needs: &[PYTHON],
        make: data::tensors,
        less_for_an_arm: 1,
        own_mib: 12,
        night: tensors!("header"),
        changes: &[Change::Order(tensors!("reversed(header)")), Change::Names],
    },
    Program {
        name: "random epochs",
        needs: &[PYTHON],
        make: data::samples,
        less_for_an_arm: 3,
        own_mib: 12,
        night: epochs!("1"),
        changes: &[Change::Order(epochs!("100")), Change::Names],
    },
    Program {
        name: "PostgreSQL, index join",
        needs: &POSTGRES,
        make: data::postgres,
        less_for_an_arm: 4,
        own_mib: 40,
        night: postgres!(
            "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = on; SET enable_bitmapscan = off; \
            SELECT sum(b.v), count(*) FROM a JOIN b ON b.k = a.k WHERE a.id % 5 = 0"
        ),
        changes: &[Change::Query(postgres!(
            "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; \
            SELECT sum(b.v), count(*) FROM a JOIN b ON b.k = a.k WHERE a.id % 5 = 1"
        ))],
    },
    Program {
        name: "PostgreSQL, selections",
        needs: &POSTGRES,
        make: data::postgres,
        less_for_an_arm: 4,
        own_mib: 40,
        night: postgres!(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; \
            SELECT sum(v), count(*) FROM b WHERE k BETWEEN 1000 AND 4000; SELECT sum(v), count(*) FROM b WHERE k BETWEEN 9000 AND 15000"
        ),
        changes: &[Change::Query(postgres!(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT sum(v), count(*) FROM b WHERE k BETWEEN 20000 AND 26000"
        ))],
    },
    Program {
        name: "SQLite, look-ups",
        needs: &[("sqlite3", "sqlite3")],
        make: data::sqlite,
        less_for_an_arm: 4,
        own_mib: 8,
        night: look_ups!("1"),
        changes: &[Change::Query(look_ups!("271828"))],
    },
    Program {
        name: "GNU tar",
        needs: &[TAR],
        make: data::tree,
        less_for_an_arm: 3,
        own_mib: 4,
        night: "tar cf - $FILES | cksum",
        changes: &[Change::Names, Change::Files],
    },
    Program {
        name: "GNU grep -r",
        needs: &[GREP],
        make: data::tree,
        less_for_an_arm: 4,
        own_mib: 4,
        night: "for word in page_16 list_17 lock_18; do grep -rc $word $FILES; done | cksum",
        changes: &[
            Change::Files,
            Change::Names,
            Change::Query("for word in node_19 cache_28; do grep -rc $word $FILES; done | cksum"),
        ],
    },
    Program {
        name: "xargs -P4 cksum",
        needs: &[FIND],
        make: data::sources,
        less_for_an_arm: 4,
        own_mib: 8,
        night: "for i in 1 2 3; do find $FILES -type f | sort | xargs -P4 -n8 cksum | sort; done | cksum",
        changes: &[
            Change::Order(
                "for i in 1 2 3; do find $FILES -type f | shuf --random-source=/proc/self/exe | xargs -P4 -n8 cksum | sort; done | cksum",
            ),
            Change::Files,
            Change::Names,
        ],
    },
    Program {
        name: "make -j4",
        needs: &[("make", "make")],
        make: data::makefile,
        less_for_an_arm: 4,
        own_mib: 16,
        night: "mkdir out; make -sj4 F=$FILES; cat out/* | cksum; rm -r out",
        changes: &[Change::Files, Change::Names],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_packages_named() {
        let names: BTreeSet<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
        for program in PROGRAMS {
            assert!(!program.needs.is_empty(), "{} comes from nowhere", program.name);
            assert!(
                program.needs.iter().all(|(command, package)| !command.is_empty() && !package.is_empty())
            );
            assert!(program.less_for_an_arm >= 1, "{}", program.name);
        }
    }

    #[test]
    fn every_program_has_another_night() {
        for program in PROGRAMS {
            assert!(program.change(None).is_some(), "{} never changes", program.name);
            let mut kinds: Vec<_> = program.changes.iter().map(|change| change.kind() as usize).collect();
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!(kinds.len(), program.changes.len(), "{}: one change of a kind", program.name);
            for change in program.changes {
                if let Change::Query(script) | Change::Order(script) = change {
                    assert_ne!(*script, program.night, "{}", program.name);
                }
            }
        }
    }

    #[test]
    fn what_is_not_installed_is_named_with_its_package() {
        let program = Program { needs: &[TAR, ("no-such-command", "some-package")], ..tar() };
        assert_eq!(program.missing(), Some(("no-such-command", "some-package")));
        assert_eq!(tar().missing(), None);
    }

    #[test]
    fn a_change_that_makes_no_sense_is_none() {
        assert_eq!(tar().change(Some(ChangeKind::Files)), Some(Change::Files));
        assert_eq!(tar().change(Some(ChangeKind::Query)), None);
    }

    fn tar() -> Program {
        Program {
            name: "tar",
            needs: &[TAR],
            make: data::tree,
            less_for_an_arm: 1,
            own_mib: 4,
            night: "",
            changes: &[Change::Names, Change::Files],
        }
    }
}
