//! The corpus: programs of all kinds, each with its data, its runs and what is expected in its header.
//!
//! ```text
//! data: NAME KIND SIZE...          a file (oracle/data.rs)
//! run: ARGUMENT...                 one line a run
//! stdin: NAME                      a file of the data as standard input
//! unit: FILE                       another translation unit
//! object: FILE                     a unit that the translator does not see
//! flags: FLAG...                   for compiler and front end
//! vanishes: FUNCTION               the slice must not contain it
//! says: TEXT                       the translation contains it
//! only: ARCHITECTURE               elsewhere it is not tested
//! untouched: FILE                  nothing of it is predicted, and nothing counted
//! expect: sliced                   in both modes
//!         sliced in a process      not as a thread
//!         begun               the program may read more than the slice comes to
//!         partly WORD              one site is refused, the cause has this word; the others are sliced
//!         until WORD               the slice may end before the program, where the cause has this word
//!         refused WORD             nothing is sliced
//! ```

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

mod oracle;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use foretell_slicer::Options;
use foretell_slicer::driver::{Limits, compile_within};
use oracle::{
    Build, compile, compiles_without_warnings, data, difference, run, sequences, succeed, translated,
    translated_with,
};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The header of a program.
struct Header {
    text: String,
}

impl Header {
    fn of(name: &str) -> Self {
        let text = fs::read_to_string(corpus().join(format!("{name}.c"))).unwrap();
        Self { text: text.split("*/").next().unwrap().to_owned() }
    }

    fn all(&self, what: &str) -> Vec<&str> {
        let lines = self.text.lines().map(|line| line.trim_start_matches(" * "));
        lines.filter_map(|line| line.strip_prefix(what)?.strip_prefix(':')).map(str::trim).collect()
    }

    fn make_data(&self, folder: &Path) {
        for line in self.all("data") {
            data::make(folder, line);
        }
    }
}

struct Program {
    header: Header,
    name: String,
    sources: Vec<PathBuf>,
    objects: Vec<PathBuf>,
    flags: Vec<String>,
    folder: tempfile::TempDir,
}

impl Program {
    fn new(name: &str) -> Self {
        let header = Header::of(name);
        let path = |file: &str| corpus().join(file);
        let mut sources = vec![path(&format!("{name}.c"))];
        sources.extend(header.all("unit").into_iter().map(path));
        let objects = header.all("object").into_iter().map(path).collect();
        let flags = header.all("flags").iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
        Self { name: name.to_owned(), sources, objects, flags, header, folder: tempfile::tempdir().unwrap() }
    }

    fn compile(&self, sources: &[PathBuf], is_translation: bool, build: Build) -> PathBuf {
        let program = self.folder.path().join(format!("{build:?}-{is_translation}"));
        let mut flags = self.flags.clone();
        flags.extend(["-iquote".to_owned(), corpus().display().to_string()]);
        let sources = [sources, &self.objects[..]].concat();
        compile(&sources, &flags, is_translation, build, &program);
        program
    }

    /// The program as `foretell cc` makes it from objects: preprocessed, program and slice apart where that can be.
    fn by_driver(&self) -> PathBuf {
        let path = |name: &str| self.folder.path().join(name);
        let driver = |flags: &[&str], output: &Path, rest: &[PathBuf]| {
            let mut words: Vec<OsString> = ["-O2", "-w", "-iquote"].map(OsString::from).to_vec();
            words.push(corpus().into());
            words.extend(self.flags.iter().chain(&["-D_FORTIFY_SOURCE=2".to_owned()]).map(OsString::from));
            words.extend(flags.iter().map(OsString::from).chain(["-o".into(), output.into()]));
            words.extend(rest.iter().map(OsString::from).chain(["-lm".into()]));
            // All tests of this process count against a limit.
            let limits = Limits { processor_s: 6000, memory_mib: 16 << 10 };
            let compiled = compile_within(&words, Some(limits)).unwrap();
            assert_eq!(compiled.exit_code, 0, "{}: {:?}", self.name, compiled.diagnosis);
        };
        let mut objects = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            objects.push(path(&format!("driver-{number}.o")));
            driver(&["-c"], &objects[number], std::slice::from_ref(source));
        }
        for (number, source) in self.objects.iter().enumerate() {
            let object = path(&format!("unseen-{number}.o"));
            succeed(Command::new("cc").args(["-O2", "-w", "-c", "-o"]).arg(&object).arg(source), "an object");
            objects.push(object);
        }
        driver(&["-pthread"], &path("driver"), &objects);
        path("driver")
    }

    /// All runs of the translation, compared with those of the original.
    fn check(&self, translation: &[PathBuf], modes: &[&str], is_whole: bool) {
        let original = self.compile(&self.sources, false, Build::Plain);
        let compiled = |build| (format!("{build:?}"), self.compile(translation, true, build));
        let mut builds: Vec<(String, PathBuf)> = Build::ALL.into_iter().map(compiled).collect();
        builds.push(("driver".to_owned(), self.by_driver()));
        let mut predictions = 0;
        for (number, line) in self.header.all("run").into_iter().enumerate() {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let fresh = |what: &str| {
                let folder = self.folder.path().join(format!("{number}-{what}"));
                fs::create_dir(&folder).unwrap();
                self.header.make_data(&folder);
                folder
            };
            let stdin = |folder: &Path| self.header.all("stdin").first().map(|name| folder.join(name));
            let folder = fresh("original");
            // argv[0] may be printed.
            let named = |folder: &Path, program: &Path| {
                let link = folder.join("program");
                std::os::unix::fs::symlink(program, &link).unwrap();
                PathBuf::from("./program")
            };
            let expected = run(&named(&folder, &original), &args, &folder, stdin(&folder).as_deref(), None);
            for mode in modes {
                for (build, program) in &builds {
                    let what = format!("{}, run {number} ({line}), {build}, {mode}", self.name);
                    let folder = fresh(&format!("{build}-{mode}"));
                    let trace = folder.join("trace");
                    let program = named(&folder, program);
                    let ran = run(&program, &args, &folder, stdin(&folder).as_deref(), Some((mode, &trace)));
                    assert_eq!(ran.sanitizer, "", "{what}");
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    assert_eq!(text(&ran.stdout), text(&expected.stdout), "{what}: standard output");
                    assert_eq!(ran.code, expected.code, "{what}: exit code; {}", ran.stderr);
                    let (predicted, real) = sequences(&trace);
                    // A slice that has ended predicts no more, but nothing else than the program does.
                    if is_whole || !real.starts_with(&predicted) {
                        assert_eq!(difference(&trace), None, "{what}");
                    }
                    for file in self.header.all("untouched") {
                        let of_it = |line: &&String| line.split('\t').nth(1) == Some(file);
                        assert_eq!(predicted.iter().chain(&real).find(of_it), None, "{what}");
                    }
                    predictions += predicted.len();
                }
            }
        }
        assert!(modes.is_empty() || predictions > 0, "{}: nothing was predicted", self.name);
    }
}

fn check(name: &str) {
    let program = Program::new(name);
    if program.header.all("only").iter().any(|architecture| *architecture != std::env::consts::ARCH) {
        return;
    }
    let translation = translated(&program.sources, &program.flags);
    let expect = program.header.all("expect")[0];
    let refusals: Vec<String> =
        translation.refusals.iter().map(|r| format!("{}: {}", r.place, r.cause)).collect();
    let (verdict, word) = expect.split_once(' ').unwrap_or((expect, ""));
    match verdict {
        "sliced" | "begun" => {
            assert!(translation.prefetches() && refusals.is_empty(), "{name}: {refusals:?}")
        }
        "partly" => {
            assert!(translation.prefetches(), "{name}: {refusals:?}");
            assert!(refusals.len() == 1 && refusals[0].contains(word), "{name}: {refusals:?}");
        }
        "until" => {
            assert!(translation.prefetches() && refusals.is_empty(), "{name}: {refusals:?}");
            let ends = &translation.report.given_up;
            assert!(ends.iter().any(|cause| cause.contains(word)), "{name}: {ends:?}");
        }
        "refused" => {
            assert!(!translation.prefetches(), "{name}: it is sliced");
            assert!(refusals.iter().any(|cause| cause.contains(word)), "{name}: {refusals:?}");
            return;
        }
        other => panic!("{name}: '{other}' is no expectation"),
    }
    let mut files = Vec::new();
    for (source, text) in program.sources.iter().zip(&translation.files) {
        let path = program.folder.path().join(source.file_name().unwrap());
        fs::write(&path, text).unwrap();
        compiles_without_warnings(source, &path, &program.flags);
        for function in program.header.all("vanishes") {
            assert!(!text.contains(&format!("slice_{function}(")), "{name}: the slice contains {function}()");
        }
        files.push(path);
    }
    for text in program.header.all("says") {
        assert!(translation.files.iter().any(|file| file.contains(text)), "{name}: no '{text}'");
    }
    let modes: &[&str] = if word == "in a process" { &["fork"] } else { &["fork", "thread"] };
    program.check(&files, modes, !["until", "begun"].contains(&verdict));
}

/// A program where parts of objects are not told apart: what its slice predicts is right all the same.
fn check_coarse(program: &Program) {
    let options = Options { coarse: true, ..Options::default() };
    let translation = translated_with(&program.sources, &program.flags, &options);
    assert!(translation.prefetches(), "{}: {:?}", program.name, translation.refusals);
    let write = |(source, text): (&PathBuf, &String)| {
        let path = program.folder.path().join(format!("coarse-{}", source.file_name().unwrap().display()));
        fs::write(&path, text).unwrap();
        path
    };
    let files: Vec<PathBuf> = program.sources.iter().zip(&translation.files).map(write).collect();
    program.check(&files, &["fork"], true);
}

#[test]
fn structures_that_are_one_place_each_are_predicted() {
    for name in ["structures", "heap_list", "globals", "bits", "error_label"] {
        check_coarse(&Program::new(name));
    }
}

/// Pointers to more places than are told apart, through which places are read, written and copied.
#[test]
fn pointers_to_hundreds_of_places_are_predicted() {
    const COUNT: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let cells = (0..COUNT).map(|n| format!("static struct cell c{n} = {{0, {}}};\n", n * 37 % 64));
    let table = (0..COUNT).map(|n| format!("&c{n}, "));
    let source = format!(
        "/*\n * data: data bytes 300000\n * run: data\n */\n#include <fcntl.h>\n#include <stdio.h>\n\
         #include <unistd.h>\nstruct cell {{ struct cell *next; long at; }};\n{}\
         static struct cell *table[] = {{{}}};\nint main(int argc, char **argv)\n{{\n    char byte = 0;\n    \
         int sum = argc, fd = open(argv[1], O_RDONLY);\n    for (int i = 0; i < {COUNT}; i++) {{\n        \
         struct cell *cell = table[i];\n        cell->next = table[i * 7 % {COUNT}];\n        \
         if (i % 3 == 0)\n            *cell = *table[i * 11 % {COUNT}];\n        \
         if (cell->next)\n            cell->next->at = (cell->next->at + i) % 64;\n        \
         if (pread(fd, &byte, 1, cell->at * 4096) == 1)\n            sum += byte;\n    }}\n    close(fd);\n    \
         printf(\"%d\\n\", sum);\n    return 0;\n}}\n",
        cells.collect::<String>(),
        table.collect::<String>()
    );
    let path = folder.path().join("many_pointers.c");
    fs::write(&path, &source).unwrap();
    let text = source.split("*/").next().unwrap().to_owned();
    check_coarse(&Program {
        header: Header { text },
        name: "many_pointers".to_owned(),
        sources: vec![path],
        objects: Vec::new(),
        flags: Vec::new(),
        folder: tempfile::tempdir().unwrap(),
    });
}

/// One unit in two programs, of which one opens another file before: what its slices are is the same, and so is its text.
#[test]
fn a_unit_of_two_programs_is_the_same_text() {
    let folder = tempfile::tempdir().unwrap();
    let shared = "#include <stdio.h>\n#include <time.h>\nunsigned sum_of(const char *name)\n{\n    \
                  FILE *file = fopen(name, \"r\");\n    unsigned char byte = 0;\n    unsigned sum = 0;\n    \
                  for (long at = time(NULL) % 7; file && at < 9; at++)\n        \
                  if (fseek(file, at * 8192, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1)\n            \
                  sum += byte;\n    if (file)\n        fclose(file);\n    return sum;\n}\n";
    let main = |more: &str| {
        format!(
            "#include <stdio.h>\n#include <time.h>\nunsigned sum_of(const char *name);\n\
             int main(int argc, char **argv)\n{{\n    char part[4096];\n    FILE *own;\n{more}    \
             printf(\"%u\\n\", argc > 1 ? sum_of(argv[1]) : 0);\n    return 0;\n}}\n"
        )
    };
    let own = "    own = fopen(\"own\", \"r\");\n    for (long at = time(NULL) % 3; own && at < 9; at++)\n        \
               if (fseek(own, at * 9999, SEEK_SET) || fread(part, 1, sizeof part, own) == 0)\n            \
               break;\n";
    let text = |name: &str, more: &str| {
        let paths = [folder.path().join(name), folder.path().join("shared.c")];
        fs::write(&paths[0], main(more)).unwrap();
        fs::write(&paths[1], shared).unwrap();
        let translation = translated(&paths, &[]);
        assert!(translation.prefetches(), "{:?}", translation.refusals);
        assert!(translation.files[1].contains("foretell_receive("), "{}", translation.files[1]);
        translation.files[1].clone()
    };
    assert_eq!(text("one.c", ""), text("two.c", own));
}

/// A test for each program, and one that no program was forgotten.
macro_rules! corpus {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        #[test]
        fn every_program_is_tested() {
            let mut tested = vec![$(stringify!($name)),*];
            tested.sort_unstable();
            let mut there: Vec<String> = fs::read_dir(corpus())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|e| e == "c"))
                .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
                .filter(|name| !Header::of(name).all("expect").is_empty())
                .collect();
            there.sort();
            assert_eq!(tested, there);
        }
    };
}

corpus! {
    backward strided config_index helpers heavy fread_records mmap_scan pointer_chase btree globals
    function_pointers switch_goto file_list raycaster fft video stdin_offsets stdin_lines getc_words gather
    shared_offset merge quadtree structures matrix options directory line_index environment early_exit
    conditions heap_list binary_search bits many_tools change_folder unchecked_folder joined_arguments gives_up_by_longjmp jumps_back goes_on_after_longjmp backward_lines csv_index bitmap archive kway walk
    mapped_search stdin_names ranges log_filter patterns same_stream eof_loops two_units random_order clock_offset read_write error_label
    changes_rights changes_rights_in_a_helper frees wrapper_of_a_printer
    refused_after_rights refused_variadic refused_asm refused_threads refused_one_of_two
    gives_up_unknown gives_up_unusual only_configuration generic common asks_the_program
    temporary forks comes_back variadic_names raises_limits reopens standard_streams positions printed_positions folders_by_descriptor
    constant_pointers printed_names library_by_pointer one_wrapper local_tables waits stdin_by_getline arguments_in_turn mapped_backward mapped_twice declared_inside computed_lengths lengths_of_members results_of_types partial_tables terminal numbers_checked copies_by_name own_allocator
    builds_and_queries sorts_by_runs makes_and_gets reads_back_offsets reads_back_notes stdin_ahead stdin_by_characters
}
