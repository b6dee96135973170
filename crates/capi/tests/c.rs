//! The C library: what it exports, what its calls give back, and the examples, which do the same with control
//! and without, with a service and without.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

#[path = "../../client/tests/fake/mod.rs"]
mod fake;
mod library;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fake::{Place, Service, Session, inode};
use foretell_protocol::{Entry, Handle, Policy, Range};
use library::{Linkage, compile, examples, library, package, run};
use tempfile::TempDir;

const LINKAGES: [Linkage; 2] = [Linkage::Static, Linkage::Shared];

/// Bytes of a block in calls that count in blocks.
const BLOCK: u64 = 8192;

fn handle(number: u32) -> Handle {
    Handle::new(number).unwrap()
}

fn range(start: u64, end: u64) -> Range {
    Range::new(start, end - start).unwrap()
}

fn set_policy(priority: i32, policy: Policy) -> Entry {
    Entry::SetPolicy { priority, policy }
}

/// Some bytes, always the same (an xorshift generator).
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A folder with programs and files of one test.
struct Bench {
    dir: TempDir,
    place: Place,
}

impl Bench {
    fn new() -> Bench {
        Bench { dir: tempfile::tempdir().unwrap(), place: Place::new() }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// What a program prints, with the service's socket in its environment.
    fn run(&self, program: &Path, arguments: &[&Path]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).env("FORETELL_SOCKET", self.place.socket()).env_remove("FORETELL_FALLBACK");
        String::from_utf8(run(&mut command).stdout).unwrap()
    }

    /// Runs an example in all ways; what it told the service, and what it printed each time.
    fn example(&self, name: &str, arguments: &[&Path]) -> (Told, String) {
        let source = examples().join(name).with_extension("c");
        let with_control: Vec<&Path> = [Path::new("--control")].iter().chain(arguments).copied().collect();
        let mut told = None;
        let mut printed = Vec::new();
        for linkage in LINKAGES {
            let program = compile(&source, self.dir.path(), linkage);
            printed.push(self.run(&program, arguments));
            printed.push(self.run(&program, &with_control));
            let service = self.place.listen();
            printed.push(self.run(&program, arguments));
            assert!(service.nobody_came(), "{name} controls its caching unasked");
            printed.push(self.run(&program, &with_control));
            told = Some(Told::to(&service));
            drop(service);
            fs::remove_file(self.place.socket()).unwrap();
        }
        assert!(printed.iter().all(|text| *text == printed[0]), "{name} prints {printed:?}");
        (told.unwrap(), printed.remove(0))
    }
}

/// What a program that has ended told the service.
struct Told {
    session: Session,
    entries: Vec<Entry>,
}

impl Told {
    fn to(service: &Service) -> Told {
        let mut session = service.accept();
        let entries = session.entries();
        Told { session, entries }
    }

    /// Is this the handle of that file?
    fn is(&self, handle: Handle, path: &Path) -> bool {
        self.session.inode(handle) == inode(&fs::File::open(path).unwrap())
    }
}

#[test]
fn the_shared_library_exports_the_header_under_versions_and_nothing_else() {
    let library = library().join("libforetell.so.0");
    let dynamic = run(Command::new("readelf").args(["-dW"]).arg(&library));
    assert!(String::from_utf8(dynamic.stdout).unwrap().contains("[libforetell.so.0]"), "the soname");
    let symbols =
        run(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(&library));
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let mut exported: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|s| *s != "FORETELL_0.1")
        .collect();
    exported.sort_unstable();
    let header = fs::read_to_string(package().join("include/foretell.h")).unwrap();
    let mut declared: Vec<String> = header
        .lines()
        .filter(|line| line.starts_with("int ") || line.starts_with("ssize_t "))
        .map(|line| line.split(['(', ' ']).nth(1).unwrap())
        .map(|name| format!("{name}@@FORETELL_0.1"))
        .collect();
    declared.sort_unstable();
    assert_eq!(declared.len(), 13);
    assert_eq!(exported, declared);
}

#[test]
fn the_manual_page_describes_every_function() {
    let page = fs::read_to_string(package().join("man/foretell.3")).unwrap();
    let map = fs::read_to_string(package().join("foretell.map")).unwrap();
    for name in
        map.lines().filter_map(|line| line.trim().strip_suffix(';')).filter(|n| n.starts_with("foretell"))
    {
        assert!(page.contains(name), "{name} is missing in foretell(3)");
    }
}

/// A policy that is added to the table is missing here until the header has its number.
#[test]
fn the_header_has_every_policy_by_its_name_and_number() {
    let header = std::fs::read_to_string(package().join("include/foretell.h")).unwrap();
    for policy in Policy::all() {
        let name = policy.name().to_ascii_uppercase().replace('-', "_");
        let define = format!("#define FORETELL_{name} {} ", policy.number());
        assert!(header.contains(&define), "no line begins with '{define}'");
    }
}

#[test]
fn every_call_gives_back_what_the_manual_says() {
    let bench = Bench::new();
    let file = bench.file("file", bytes(100_000));
    for linkage in LINKAGES {
        let program = compile(&package().join("tests/programs/calls.c"), bench.dir.path(), linkage);
        let arguments = [file.as_path(), bench.dir.path()];
        assert_eq!(bench.run(&program, &arguments), "connected 0, 0 failures\n");
        let service = bench.place.listen();
        assert_eq!(bench.run(&program, &arguments), "connected 1, 0 failures\n");
        let told = Told::to(&service);
        let disclose = |start, end| Entry::Disclose { file: handle(1), range: range(start, end) };
        let expected = [
            Entry::SetPriority { file: handle(1), priority: -5 },
            set_policy(-5, Policy::Mru),
            Entry::SetTemporaryPriority { file: handle(1), range: range(2 * BLOCK, 4 * BLOCK), priority: 9 },
            disclose(100, 150),
            Entry::DiscloseFile { file: handle(1) },
            disclose(8192, i64::MAX as u64),
            Entry::DoneWith { file: handle(1), range: range(0, 8192) },
            disclose(0, 10),
            disclose(20, 30),
            Entry::DiscloseFile { file: handle(1) },
            Entry::Cancel,
            // Before the mistake in its list.
            disclose(0, 10),
        ];
        assert_eq!(told.entries[..expected.len()], expected);
        assert!(told.is(handle(1), &file));
        drop(service);
        fs::remove_file(bench.place.socket()).unwrap();
    }
}

#[test]
fn the_library_leaves_the_process_as_it_was() {
    let bench = Bench::new();
    let file = bench.file("file", bytes(100_000));
    for linkage in LINKAGES {
        let program = compile(&package().join("tests/programs/guest.c"), bench.dir.path(), linkage);
        assert_eq!(bench.run(&program, &[&file]), "connected 0, 0 failures\n");
        let service = bench.place.listen();
        assert_eq!(bench.run(&program, &[&file]), "connected 1, 0 failures\n");
        drop(service);
        fs::remove_file(bench.place.socket()).unwrap();
    }
}

#[test]
fn a_program_with_more_rights_than_its_starter_does_not_believe_the_environment() {
    let test = "a_program_with_more_rights_than_its_starter_does_not_believe_the_environment";
    let bench = Bench::new();
    let flags = rustix::fs::statvfs(bench.dir.path()).unwrap().f_flag;
    if !rustix::process::geteuid().is_root() || flags.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
        println!("skipped: {test}: needs root, and a temporary folder where set-user-ID counts");
        return;
    }
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(bench.dir.path(), 0o755);
    mode(bench.place.socket().parent().unwrap(), 0o755);
    let file = bench.file("secret", "x");
    mode(&file, 0o600);
    let program = compile(&package().join("tests/programs/guest.c"), bench.dir.path(), Linkage::Static);
    let service = bench.place.listen();
    mode(&bench.place.socket(), 0o666);
    // A service of whoever starts the program, who may not read the file.
    let start = || {
        let mut command = Command::new(&program);
        command.arg(&file).env("FORETELL_SOCKET", bench.place.socket()).uid(54_321).gid(54_321);
        command
    };
    assert_eq!(start().output().unwrap().status.code(), Some(2), "it cannot open the file");
    mode(&program, 0o4755);
    assert_eq!(String::from_utf8(run(&mut start()).stdout).unwrap(), "connected 0, 0 failures\n");
    assert!(service.nobody_came());
}

#[test]
fn a_forked_child_is_a_client_of_its_own() {
    let bench = Bench::new();
    let file = bench.file("file", "x");
    let source = package().join("tests/programs/fork.c");
    let program = compile(&source, bench.dir.path(), Linkage::Shared);
    assert_eq!(bench.run(&program, &[&file]), "priority 3, 0 failures\n");
    let service = bench.place.listen();
    assert_eq!(bench.run(&program, &[&file]), "priority 3, 0 failures\n");
    let priority = |priority| Entry::SetPriority { file: handle(1), priority };
    let (parent, child) = (Told::to(&service), Told::to(&service));
    assert_eq!(parent.entries[0], priority(3));
    assert!(parent.entries[1..].iter().all(|entry| matches!(entry, Entry::Disclose { .. })));
    assert_eq!(child.entries, [priority(4)]);
}

#[test]
fn sequential_once() {
    let bench = Bench::new();
    let (a, b) = (bench.file("a", bytes(100_000)), bench.file("b", "b"));
    let (told, _) = bench.example("sequential_once", &[&a, &b]);
    let priority = |number| Entry::SetPriority { file: handle(number), priority: -1 };
    assert_eq!(told.entries, [priority(1), priority(2)]);
    assert!(told.is(handle(1), &a) && told.is(handle(2), &b));
}

#[test]
fn cyclic_scan() {
    let bench = Bench::new();
    let file = bench.file("file", "abcabca".repeat(10_000));
    let (told, printed) = bench.example("cyclic_scan", &[&file, Path::new("abz")]);
    assert_eq!(printed, "'a' 30000 times\n'b' 20000 times\n'z' 0 times\n");
    let expected = [Entry::SetPriority { file: handle(1), priority: 0 }, set_policy(0, Policy::Mru)];
    assert_eq!(told.entries, expected);
}

#[test]
fn small_files() {
    let bench = Bench::new();
    let files: Vec<PathBuf> =
        (0..100).map(|at| bench.file(&format!("{at:03}"), format!("int x{at}; int main;"))).collect();
    let words = PathBuf::from("int,main,x99");
    let arguments: Vec<&Path> = std::iter::once(&words).chain(&files).map(PathBuf::as_path).collect();
    let (told, printed) = bench.example("small_files", &arguments);
    assert_eq!(printed, "int: 200\nmain: 100\nx99: 1\n");
    assert_eq!(told.entries[0], set_policy(0, Policy::Mru));
    let listed: Vec<bool> = told.entries[1..]
        .iter()
        .zip(&files)
        .map(|(entry, path)| matches!(entry, Entry::DiscloseFile { file } if told.is(*file, path)))
        .collect();
    assert_eq!(listed, [true; 100], "in the order of their opening");
}

#[test]
fn hot_cold() {
    let bench = Bench::new();
    let (index, data) = (bench.file("index", bytes(20_000)), bench.file("data", bytes(200_000)));
    let (told, printed) = bench.example("hot_cold", &[&index, &data, Path::new("20")]);
    assert_eq!(printed.lines().count(), 20);
    let hot = Entry::SetPriority { file: handle(1), priority: 1 };
    let cold = Entry::SetPriority { file: handle(2), priority: 0 };
    assert_eq!(told.entries, [hot, cold, set_policy(1, Policy::Mru), set_policy(0, Policy::Mru)]);
    assert!(told.is(handle(1), &index) && told.is(handle(2), &data));
}

#[test]
fn access_once() {
    let bench = Bench::new();
    let file = bench.file("file", bytes(BLOCK as usize * 2 + 100));
    let (told, _) = bench.example("access_once", &[&file]);
    let behind = |block: u64| Entry::SetTemporaryPriority {
        file: handle(1),
        range: range(block * BLOCK, (block + 1) * BLOCK),
        priority: -1,
    };
    assert_eq!(told.entries, [behind(0), behind(1), behind(2)]);
}

#[test]
fn merge_sort() {
    let bench = Bench::new();
    // Twenty runs, so that it takes two rounds.
    let records = 16384 * 20 - 1000;
    let input = bench.file("input", bytes(records * 8));
    let output = bench.dir.path().join("output");
    let (told, printed) = bench.example("merge_sort", &[&input, &output, bench.dir.path()]);
    assert_eq!(printed, format!("{records} records\n"));
    let numbers = |path: &Path| -> Vec<u64> {
        let bytes = fs::read(path).unwrap();
        bytes.chunks(8).map(|record| u64::from_ne_bytes(record.try_into().unwrap())).collect()
    };
    let mut sorted = numbers(&input);
    sorted.sort_unstable();
    assert!(numbers(&output) == sorted, "not sorted");
    assert_eq!(told.entries[..2], [set_policy(-1, Policy::Mru), set_policy(0, Policy::Mru)]);
    assert_eq!(told.entries[2], Entry::SetPriority { file: handle(1), priority: -1 });
    assert!(told.is(handle(1), &input));
    let runs = |entry: &&Entry| matches!(entry, Entry::SetPriority { priority: 0, .. });
    assert_eq!(told.entries.iter().filter(runs).count(), 22, "the runs, and those of two rounds of eight");
    let unread = |entry: &&Entry| matches!(entry, Entry::SetPriority { priority: -1, .. });
    assert_eq!(told.entries.iter().filter(unread).count(), 2, "the input and the output");
    // Every block of the twenty runs once, and once more those of the runs that two rounds of eight made.
    let blocks = (records as u64 * 8).div_ceil(BLOCK) + 16 * 16384 * 8 / BLOCK;
    assert_eq!(told.entries[3..].len() as u64, blocks + 23);
}

#[test]
fn index_scan() {
    let bench = Bench::new();
    let offsets: Vec<u64> = (0..10_000u64).map(|at| at * 7919 % 4096 * 256).collect();
    let index =
        bench.file("index", offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect::<Vec<u8>>());
    let table = bench.file("table", bytes(4096 * 256));
    let (told, _) = bench.example("index_scan", &[&index, &table]);
    assert_eq!(told.entries[0], Entry::SetPriority { file: handle(1), priority: 1 });
    assert!(told.is(handle(1), &index) && told.is(handle(2), &table));
    // Nobody took anything out while it ran: as much as the ring holds for hints, from the beginning.
    let disclosed: Vec<u64> = told.entries[1..]
        .iter()
        .map(|entry| match entry {
            Entry::Disclose { range, .. } => range.start(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(disclosed.len(), 8192 - 64 - 1);
    assert_eq!(disclosed, offsets[..disclosed.len()]);
}
