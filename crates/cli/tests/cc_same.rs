//! What `foretell cc` gives for a command is what `cc` gives: exit code, words, files, and the bytes of those that hold no code
//! of ours. Each command runs in two folders that are equal, once by each.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A program that reads, so that a link of it is translated.
const MAIN: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "where.h"

int main(void)
{
    char byte = 0;
    int sum = 0, fd = open("data", O_RDONLY);
    for (int i = 0; i < 20; i++)
        if (pread(fd, &byte, 1, where(i)) == 1)
            sum += byte;
    close(fd);
    printf("%d %s\n", sum, __FILE__);
    return sum % 100;
}
"#;

/// The files of the folder that each command begins with.
const FILES: &[(&str, &str)] = &[
    ("main.c", MAIN),
    ("where.c", "#include \"where.h\"\nlong where(int i) { return 90000 - i * 4096; }\n"),
    ("include/where.h", "#ifndef WHERE_H\n#define WHERE_H\nlong where(int i);\n#endif\n"),
    ("hello.c", "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n"),
    ("warns.c", "int f(int a) { int unused; if (a = 1) return 2; return 3; }\n"),
    ("wrong.c", "int f(void) { return undeclared; }\n"),
    ("calls.c", "int nowhere(void);\nint main(void) { return nowhere(); }\n"),
    ("missing_header.c", "#include \"not_there.h\"\nint main(void) { return 0; }\n"),
    ("asm.s", ".text\n.globl one\none:\n ret\n.section .note.GNU-stack,\"\",@progbits\n"),
    ("pre.S", "#define NAME two\n.text\n.globl NAME\nNAME:\n ret\n.section .note.GNU-stack,\"\",@progbits\n"),
    ("old.c", "#define PASTE(a, b) a/**/b\nint PASTE(x, y) = 1;\n"),
    ("given", "-Iinclude -O1\n'-DX=\"a b\"' -c where.c\n"),
    ("linked", "-Iinclude main.c where.c -o prog\n"),
    ("own.specs", "*cpp:\n+ -DSPECS\n"),
    ("text.txt", "int t(void) { return 1; }\n"),
    ("script.ld", "INPUT(where.o)\n"),
    ("pch.h", "#include <stdio.h>\n"),
];

// Commands as a shell reads them, `cc` being either.

/// What a compiler says of itself.
const SAYS: &[&str] = &[
    "cc -v",
    "cc --version",
    "cc -dumpmachine",
    "cc -dumpversion",
    "cc -dumpfullversion",
    "cc -dumpspecs",
    "cc -print-search-dirs",
    "cc -print-file-name=libc.a",
    "cc -print-prog-name=ld",
    "cc -print-multi-lib",
    "cc -print-sysroot",
    "cc -Q --help=warnings",
    "cc --target-help",
    "cc --version main.c",
    "cc -### -Iinclude -c main.c",
    "cc -### -Iinclude main.c where.c -o prog",
    "cc -v -Iinclude -c main.c",
    "cc -v -Iinclude main.c where.c -o prog",
    "cc -v -E -Iinclude main.c",
];

/// Wrong commands.
const WRONG: &[&str] = &[
    "cc",
    "cc -c",
    "cc -o",
    "cc -c missing.c",
    "cc missing.o",
    "cc -c wrong.c",
    "cc wrong.c -o prog",
    "cc calls.c -o prog",
    "cc -c missing_header.c",
    "cc -no-such-option -c hello.c",
    "cc --no-such-option hello.c",
    "cc -fno-such-option hello.c",
    "cc -c hello.c where.c -Iinclude -o both.o",
    "cc -Iinclude -c main.c -o no/such/folder/main.o",
    "cc hello.c -o no/such/folder/prog",
    "cc -x nonsense hello.c",
    "cc -lno_such_library hello.c",
    "cc -- hello.c",
    "cc @missing",
];

/// The preprocessor.
const PREPROCESSES: &[&str] = &[
    "cc -E -Iinclude main.c",
    "cc -E -Iinclude main.c -o main.i",
    "cc -E -Iinclude main.c >&-",
    "cc -E -P -dD -Iinclude where.c",
    "cc -M -Iinclude main.c",
    "cc -MM -Iinclude main.c where.c",
    "cc -MM -MG missing_header.c",
    "cc -MM -MT target -MQ '$other' -MP -Iinclude main.c -MF deps",
    "cc -MD -Iinclude -c main.c",
    "cc -MMD -MP -Iinclude -c main.c -o x.o",
    "cc -MMD -MF deps -MT x -Iinclude main.c where.c -o prog",
    "cc -MD -Iinclude main.c where.c -o prog",
    "cc -Wp,-MMD,deps -Iinclude -c main.c",
    "cc -Xpreprocessor -MMD -Xpreprocessor deps -Iinclude -c main.c",
    "cc -H -Iinclude -c where.c",
    "cc -traditional-cpp -E old.c",
    "cc -traditional-cpp -c old.c",
    "cc -include stdio.h -imacros include/where.h -c where.c -Iinclude",
    "cc -x c - -c -o in.o <text.txt",
    "cc -x c -E - <text.txt",
    "cc -x c -c /dev/stdin -o in.o <text.txt",
    "cat text.txt | cc -x c -c /dev/stdin -o in.o",
    "cat given | cc @/dev/stdin",
];

/// Objects and assembly.
const COMPILES: &[&str] = &[
    "cc -S -Iinclude main.c",
    "cc -S -Iinclude where.c -o -",
    "cc -Iinclude -c main.c where.c hello.c",
    "cc -Iinclude -c main.c -o one.o -o two.o",
    "cc -c -x c text.txt",
    "cc -c asm.s pre.S",
    "cc -c -x assembler-with-cpp pre.S -o p.o",
    "cc -E -Iinclude where.c -o where.i && cc -c where.i",
    "cc -fsyntax-only -Wall warns.c",
    "cc -Wall -Wextra -c warns.c",
    "cc -Wall -Werror -c warns.c",
    "cc -Wall -fdiagnostics-format=json -c warns.c",
    "cc -Wall -fdiagnostics-color=always -c warns.c",
    "cc -Wall -c warns.c 2>&1 | cat",
    "cc -std=c89 -pedantic -c main.c -Iinclude",
    "cc -std=nonsense -c hello.c",
    "cc --std=c11 --compile hello.c --output=x.o",
    "cc --preprocess text.txt hello.c",
    "cc --assemble hello.c",
    "cc -Iinclude -save-temps -c where.c",
    "cc -Iinclude -save-temps=obj main.c where.c -o prog",
    "cc -pipe -Iinclude -O2 main.c where.c -o prog",
    "cc -g -gsplit-dwarf -Iinclude -c main.c",
    "cc -g -gsplit-dwarf -Iinclude main.c where.c -o prog",
    "cc --coverage -Iinclude -c main.c where.c && cc --coverage main.o where.o -o prog",
    "cc -fprofile-arcs -ftest-coverage -c hello.c",
    "cc -flto -O1 -Iinclude main.c where.c -o prog",
    "cc -flto -fno-fat-lto-objects -Iinclude -c where.c",
    "cc -fstack-usage -fdump-tree-optimized -O1 -Iinclude -c where.c",
    "cc -fstack-usage -O1 -Iinclude main.c where.c -o prog",
    "cc -aux-info info -c hello.c",
    "cc -Wa,-al=list -c hello.c",
    "cc pch.h && cc -include pch.h -c where.c -Iinclude",
    "cc -ffreestanding -nostdlib -c where.c -Iinclude",
    "cc -m32 -c where.c -Iinclude",
    "cc -m32 hello.c",
    "cc -fPIC -Iinclude -c where.c && objdump -h where.o && strip where.o",
    "cc -Iinclude -c where.c && objcopy where.o copy.o && cmp copy.o copy.o",
];

/// Programs and libraries.
const LINKS: &[&str] = &[
    "cc hello.c",
    "cc -Iinclude main.c where.c -o prog",
    "cc -Iinclude -c main.c where.c && cc main.o where.o -o prog && cc main.o where.o -o prog",
    "cc -Iinclude -c where.c && ar rcs libw.a where.o && cc -Iinclude main.c -L. -lw -o prog",
    "cc -Iinclude -c where.c && ar rcs --thin libw.a where.o && cc -Iinclude main.c libw.a -o prog",
    "cc -Iinclude -c where.c && cc -Iinclude main.c script.ld -o prog",
    "cc -shared -fPIC -Iinclude where.c -o libw.so && cc hello.c ./libw.so -o prog",
    "cc -static -Iinclude main.c where.c -o prog",
    "cc -Iinclude -c main.c where.c && cc -r main.o where.o -o both.o && cc both.o -o prog",
    "cc -Iinclude -c main.c where.c && ld -r main.o where.o -o both.o",
    "cc -nostdlib -ffreestanding -Wl,--entry=where where.c -Iinclude -o bare",
    "cc hello.c -Wl,--trace",
    "cc -Iinclude main.c where.c -Wl,--trace -o prog | sed s,/tmp/cc[^.]*,,",
    "cc hello.c -Wl,-Map=hello.map",
    "cc -Iinclude -c main.c where.c && cc main.o where.o -Wl,-Map,prog.map -Wl,--cref -o prog",
    "cc -Iinclude -c main.c where.c && cc main.o where.o -Xlinker -Map=prog.map -o prog",
    "cc hello.c -Wl,--version",
    "cc -Iinclude main.c where.c && cc main.c where.c -Iinclude -Wl,--version",
    "cc -Iinclude main.c where.c -o prog -o other",
    "cc -Iinclude main.c where.c -Wl,-o,third",
    "cc -Iinclude -c main.c where.c && cc main.o where.o -Wl,-shared -o prog; true",
    "cc -Iinclude -c main.c where.c && cc main.o where.o -Wl,--print-memory-usage -o prog",
    "cc @given",
    "cc @linked",
    "cc -specs=own.specs -Iinclude main.c where.c -o prog",
    "cc -B. -Iinclude main.c where.c -o prog",
    "cc -pthread -Iinclude main.c where.c -o prog",
    "cc -fsanitize=address -Iinclude main.c where.c -o prog",
    "cc -p -c hello.c && cc -pg hello.o",
    "cc -wrapper env -Iinclude main.c where.c -o prog",
    "mkdir closed && chmod 555 closed && cc hello.c -o closed/prog",
];

/// What stands around a command.
const AROUND: &[&str] = &[
    "CPATH=include cc main.c where.c -o prog",
    "CPATH=include cc -c main.c where.c && cc main.o where.o -o prog",
    "mkdir tmp && TMPDIR=$PWD/tmp cc -Iinclude main.c where.c -o prog",
    "TMPDIR=/no/such/folder cc -Iinclude main.c where.c -o prog",
    "GCC_COMPARE_DEBUG=1 cc -Iinclude -O1 -c main.c; true",
    "SOURCE_DATE_EPOCH=1 cc -Iinclude -DD=__DATE__ main.c where.c -o prog",
    "DEPENDENCIES_OUTPUT=deps cc -Iinclude -c main.c",
    "DEPENDENCIES_OUTPUT='deps target' cc -Iinclude main.c where.c -o prog",
    "GCC_COLORS= cc -fdiagnostics-color -Wall -c warns.c",
    "LC_ALL=C cc -Wall -c warns.c",
    "umask 077; cc -Iinclude main.c where.c -o prog && stat -c %a prog",
    "ln -s elsewhere prog; cc -Iinclude main.c where.c -o prog; readlink prog",
    "cc -Iinclude main.c where.c -o prog; ln prog other; cc -Iinclude main.c where.c -o prog; stat -c %h other",
];

struct Side {
    folder: tempfile::TempDir,
    cache: PathBuf,
}

impl Side {
    /// A folder with a name of as many letters on both sides, and the program `cc` for it.
    fn new(bin: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("same-").rand_bytes(8).tempdir().unwrap();
        fs::create_dir(folder.path().join("include")).unwrap();
        for (name, text) in FILES {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder, cache: bin.join("cache") }
    }

    fn run(&self, line: &str, bin: &Path) -> Output {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Command::new("sh")
            .args(["-c", line])
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("XDG_CACHE_HOME", &self.cache)
            .env_remove("MAKEFLAGS")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn text(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes).replace(&*self.folder.path().to_string_lossy(), "FOLDER");
        // Names that the compiler makes up differ each time.
        let mut words = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("/cc") {
            let (before, after) = rest.split_at(at + 3);
            words.push_str(before);
            let name = after.get(..6).filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric()));
            let is_made_up = name.is_some() && !after[6..].starts_with(|c: char| c.is_ascii_alphanumeric());
            rest = if is_made_up { &after[6..] } else { after };
        }
        words + rest
    }

    /// The files that are there, with what is to be the same of them.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.folder.path()).unwrap().display().to_string();
                if path.is_symlink() {
                    found.insert(name, Vec::new());
                } else if path.is_dir() {
                    folders.push(path);
                } else {
                    // The compiler puts a number of its own into these, or the folder's.
                    let differs = [".gcno", ".dwo", ".gch"].iter().any(|end| name.ends_with(end));
                    let bytes = if differs { Vec::new() } else { fs::read(&path).unwrap() };
                    found.insert(name, same_part(self, bytes));
                }
            }
        }
        found
    }
}

/// Of objects what the compiler has written; of programs that they are ones; of archives how many members they have.
fn same_part(side: &Side, bytes: Vec<u8>) -> Vec<u8> {
    const RECORD: &[u8] = b"\x7fforetell object record";
    if bytes.starts_with(b"!<") {
        return b"archive".to_vec();
    }
    if !bytes.starts_with(b"\x7fELF") {
        return side.text(&bytes).into_bytes();
    }
    let is_object = bytes[16] == 1;
    if !is_object {
        return b"program".to_vec();
    }
    // Behind that stand the record, its length, and what it is known by.
    let at = bytes.len().saturating_sub(RECORD.len() + 2);
    let is_behind = at > 4 && bytes[at..].starts_with(RECORD);
    let length =
        if is_behind { u32::from_le_bytes(bytes[at - 4..at].try_into().unwrap()) as usize + 4 } else { 0 };
    let own = if is_behind { &bytes[..at - length] } else { &bytes[..] };
    // What is optimized later, what is counted, and what has its debug information elsewhere, has a number of its own.
    match [&b".gnu.lto_"[..], b"gcov", b".dwo"]
        .iter()
        .any(|word| own.windows(word.len()).any(|window| window == *word))
    {
        true => b"object".to_vec(),
        false => side.text(own).into_bytes(),
    }
}

/// A folder in which `cc` is the one or the other.
fn bin(ours: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    if ours {
        let (path, foretell) = (folder.path().join("cc"), env!("CARGO_BIN_EXE_foretell"));
        // Without the folder of this one, which stands first.
        let text = format!("#!/bin/sh\nPATH=\"${{PATH#*:}}\" exec '{foretell}' cc \"$@\"\n");
        fs::write(&path, text).unwrap();
        make_executable(&path);
    }
    folder
}

/// What we say beside: a program that is as it was.
fn theirs(stderr: &str) -> String {
    stderr
        .lines()
        .filter(|line| !line.contains("compiled unchanged: "))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn what_a_compiler_says_of_itself() {
    compare(SAYS);
}

#[test]
fn wrong_commands() {
    compare(WRONG);
}

#[test]
fn the_preprocessor() {
    compare(PREPROCESSES);
}

#[test]
fn objects_and_assembly() {
    compare(COMPILES);
}

#[test]
fn programs_and_libraries() {
    compare(LINKS);
}

#[test]
fn what_stands_around_a_command() {
    compare(AROUND);
}

fn compare(commands: &[&str]) {
    let (ours, real) = (bin(true), bin(false));
    let mut different = Vec::new();
    for line in commands {
        let (one, other) = (Side::new(real.path()), Side::new(ours.path()));
        let said = [one.run(line, real.path()), other.run(line, ours.path())];
        let sides = [(&one, &said[0]), (&other, &said[1])];
        let words = |side: &Side, bytes: &[u8]| {
            side.text(bytes).replace(&*ours.path().to_string_lossy(), "").replace("/usr/bin/cc:", "cc:")
        };
        let mut whys = Vec::new();
        if said[0].status.code() != said[1].status.code() {
            whys.push(format!("exit codes {:?}, {:?}", said[0].status.code(), said[1].status.code()));
        }
        let out = sides.map(|(side, said)| words(side, &said.stdout));
        if out[0] != out[1] {
            whys.push(format!("stdout {}", first_difference(&out[0], &out[1])));
        }
        let err = sides.map(|(side, said)| words(side, &said.stderr));
        if theirs(&err[0]) != theirs(&err[1]) {
            whys.push(format!("stderr {}", first_difference(&theirs(&err[0]), &theirs(&err[1]))));
        }
        let files = [one.files(), other.files()];
        if !files[0].keys().eq(files[1].keys()) {
            whys.push(format!("files {:?}, {:?}", files[0].keys(), files[1].keys()));
        }
        for (name, bytes) in &files[0] {
            if files[1].get(name).is_some_and(|other| other != bytes) {
                whys.push(format!("bytes of {name}"));
            }
        }
        if !whys.is_empty() {
            different.push(format!("{line}\n    {}", whys.join("\n    ")));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {} commands differ:\n{}",
        different.len(),
        commands.len(),
        different.join("\n")
    );
}

fn first_difference(one: &str, other: &str) -> String {
    let (mut ones, mut others) = (one.lines(), other.lines());
    loop {
        match (ones.next(), others.next()) {
            (None, None) => return "in its last line".to_owned(),
            (one, other) if one == other => {}
            (one, other) => return format!("{one:?}, {other:?}"),
        }
    }
}

/// A folder, and `foretell cc` in it with a cache of its own.
struct Ours {
    side: Side,
    bin: tempfile::TempDir,
}

impl Ours {
    fn new() -> Self {
        let bin = bin(true);
        let side = Side::new(bin.path());
        fs::write(side.folder.path().join("data"), vec![3; 100_000]).unwrap();
        Self { side, bin }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.side.folder.path().join(name)
    }

    fn says(&self, line: &str) -> String {
        let output = self.side.run(line, self.bin.path());
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
    }

    fn names(&self) -> Vec<String> {
        self.side.files().into_keys().collect()
    }
}

/// Does a run of `./prog` prefetch?
const RUN: &str = "rm -f trace; FORETELL_SLICE_TRACE=trace ./prog; test $? = 60; grep -c ^P trace";

#[test]
fn the_same_sources_give_the_same_bytes() {
    for line in [
        "cc -g -O2 -Iinclude main.c where.c -o prog",
        "cc -g -Iinclude -c main.c where.c && ar rcsD libw.a where.o && cc main.o libw.a -o prog",
        "cc -O2 -Iinclude -fsanitize=address main.c where.c -o prog",
    ] {
        let ours = Ours::new();
        let built = || {
            assert_eq!(ours.says(line), "");
            let bytes =
                ["prog", "main.o", "libw.a"].map(|name| fs::read(ours.path(name)).unwrap_or_default());
            fs::remove_dir_all(&ours.side.cache).unwrap();
            let sources = ["main.c", "where.c"].map(|name| fs::read(ours.path(name)).unwrap());
            fs::write(ours.path("main.c"), &sources[0]).unwrap();
            fs::write(ours.path("where.c"), &sources[1]).unwrap();
            bytes
        };
        let (first, second) = (built(), built());
        assert!(first == second, "{line}");
    }
}

/// A header that is another one when the program is linked.
#[test]
fn a_slice_is_of_what_was_compiled() {
    let ours = Ours::new();
    ours.says("cc -Iinclude -c main.c where.c");
    fs::write(ours.path("include/where.h"), "#define where(i) nowhere\nextern long nowhere;\n").unwrap();
    assert_eq!(ours.says("cc main.o where.o -o prog"), "");
    assert_eq!(ours.says(RUN), "60 main.c\n20\n");
    // Where it is not kept any more, a line says so.
    fs::remove_dir_all(&ours.side.cache).unwrap();
    let said = ours.says("cc main.o where.o -o prog");
    assert!(
        said.contains("prog: compiled unchanged: ") && said.contains("is not what was compiled"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}

/// Of the archives a thin one, whose members lie elsewhere.
#[test]
fn members_of_archives_have_their_sources() {
    for kind in ["rcs", "rcs --thin"] {
        let ours = Ours::new();
        ours.says(&format!(
            "mkdir sub && cc -Iinclude -c where.c -o sub/where.o && ar {kind} sub/libw.a sub/where.o"
        ));
        assert_eq!(ours.says("cc -Iinclude main.c -Lsub -lw -o prog"), "", "{kind}");
        assert_eq!(ours.says(RUN), "60 main.c\n20\n", "{kind}");
    }
}

/// By what is typed, by make(1), and by what no process can catch.
#[test]
fn a_build_that_is_broken_off_leaves_nothing_of_ours() {
    for signal in ["INT", "TERM", "KILL"] {
        let ours = Ours::new();
        fs::create_dir(ours.path("tmp")).unwrap();
        // The front end does not come to an end, so the translation has begun; the compiler does not either.
        let waits = format!(
            "#!/bin/sh\necho $$ >'{0}/pid'\nmv '{0}/pid' '{0}/waits'\nexec sleep 600\n",
            ours.side.folder.path().display()
        );
        let clang = ours.bin.path().join("clang");
        fs::write(&clang, waits).unwrap();
        make_executable(&clang);
        let before = ours.names();
        let path = format!("{}:{}", ours.bin.path().display(), std::env::var("PATH").unwrap());
        // Who starts tests in the background of a script has them ignore SIGINT.
        let mut running = Command::new("env")
            .args(["--default-signal", env!("CARGO_BIN_EXE_foretell")])
            .args(["cc", "-Iinclude", "main.c", "where.c", "-o", "prog"])
            .current_dir(ours.side.folder.path())
            .env("FORETELL_CC", "/usr/bin/cc")
            .env("PATH", path)
            .env("TMPDIR", ours.path("tmp"))
            .env("XDG_CACHE_HOME", &ours.side.cache)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        until(|| ours.path("waits").exists());
        assert!(fs::read_dir(ours.path("tmp")).unwrap().count() > 0);
        let pid = running.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert!(!running.wait().unwrap().success());
        until(|| fs::read_dir(ours.path("tmp")).unwrap().count() == 0);
        let left = ours.names();
        let new: Vec<&String> = left.iter().filter(|name| !before.contains(name)).collect();
        assert_eq!(new, ["prog", "waits"], "{signal}");
        let front_end = fs::read_to_string(ours.path("waits")).unwrap();
        assert!(Command::new("kill").arg(front_end.trim()).status().unwrap().success());
    }
}

/// The compiler hears of it when only we are told.
#[test]
fn the_compiler_ends_when_a_build_is_broken_off() {
    use std::os::unix::process::ExitStatusExt as _;
    let ours = Ours::new();
    let compiler = ours.path("compiler");
    let text = "#!/bin/sh\ncase \"$*\" in *-E*) exit 1;; esac\n\
                trap 'echo >told; kill $!; exit 1' TERM\nsleep 600 & echo >waits\nwait\n";
    fs::write(&compiler, text).unwrap();
    make_executable(&compiler);
    let mut running = Command::new(env!("CARGO_BIN_EXE_foretell"))
        .args(["cc", "-c", "hello.c"])
        .current_dir(ours.side.folder.path())
        .env("FORETELL_CC", &compiler)
        .env("XDG_CACHE_HOME", &ours.side.cache)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    until(|| ours.path("waits").exists());
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(running.wait().unwrap().signal(), Some(15));
    assert!(ours.path("told").exists());
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Waits for something that comes soon, or much later on a busy machine.
fn until(there: impl Fn() -> bool) {
    for _ in 0..3000 {
        if there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come");
}
