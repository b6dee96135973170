//! `foretell cc` where it writes, and what it must not touch there. Its commands are given to the driver directly;
//! the command's own tests (crates/cli/tests/cc.rs) start it as a user does.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use foretell_slicer::driver::{Limits, compile_cxx_within, compile_within};

const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char byte = 0;
    int sum = 0, fd = open(argc > 1 ? argv[1] : "data", O_RDONLY);
    for (int i = 20; i > 0; i--)
        if (pread(fd, &byte, 1, i * 4096) == 1)
            sum += byte;
    close(fd);
    printf("%d\n", sum);
    return 0;
}
"#;

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What `foretell cc` has to say about a command that must succeed.
fn cc(arguments: &[&str], paths: &[&Path]) -> Option<String> {
    let paths = paths.iter().map(OsString::from);
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).chain(paths).collect();
    // All tests of this process count against a limit, and the machine may be slow.
    let limits = Limits { processor_s: 600, memory_mib: 16 << 10 };
    let compiled = compile_within(&arguments, Some(limits)).unwrap();
    assert_eq!(compiled.exit_code, 0, "{:?}", compiled.diagnosis);
    compiled.diagnosis
}

fn is_translated(program: &Path) -> bool {
    let bytes = fs::read(program).unwrap();
    bytes.windows(14).any(|window| window == b"foretell-slice")
}

/// A null device: as root one of our own, so that a defect replaces that one.
fn null_device(folder: &Path) -> PathBuf {
    let own = folder.join("null");
    let made =
        Command::new("mknod").args([own.as_os_str(), "c".as_ref(), "1".as_ref(), "3".as_ref()]).output();
    let usable = made.is_ok_and(|made| made.status.success()) && fs::write(&own, "x").is_ok();
    if usable { own } else { PathBuf::from("/dev/null") }
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    let folder = folder_with(&[("a.c", PROGRAM)]);
    let (source, null) = (folder.path().join("a.c"), null_device(folder.path()));
    assert_eq!(cc(&["-o"], &[&null, &source]), None);
    assert!(fs::metadata(&null).unwrap().file_type().is_char_device());
    assert_eq!(cc(&["-c", "-o"], &[&null, &source]), None);
    assert!(fs::metadata(&null).unwrap().file_type().is_char_device());
}

/// Around what such a macro becomes, the preprocessor leaves line markers.
#[test]
fn a_macro_of_a_system_header_is_no_hindrance_within_an_expression() {
    let text = PROGRAM.replace(
        "#include <fcntl.h>",
        "#include <fcntl.h>\n#include <stddef.h>\nstruct s { int a; char b[9]; };",
    );
    let text = text.replace("i * 4096", "i * (steps[i % 2].bytes + (off_t)offsetof(struct s, b[2]))");
    // The table has a type without a name, and is declared in the slice as it stands.
    let steps =
        "static struct { const char *name; long bytes; } steps[] = { { NULL, 4096 }, { NULL, 8192 } };";
    let text = text.replace("    char byte", &format!("    {steps}\n    char byte"));
    let folder = folder_with(&[("a.c", &text)]);
    let (source, program) = (folder.path().join("a.c"), folder.path().join("prog"));
    assert_eq!(cc(&["-o"], &[&program, &source]), None);
    assert!(is_translated(&program));
}

/// GCC's header of vector instructions has words that clang does not know, once it is preprocessed.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_the_front_end_cannot_read_preprocessed_is_read_as_it_was_written() {
    let folder = folder_with(&[("a.c", &format!("#include <immintrin.h>\n{PROGRAM}"))]);
    let (source, program) = (folder.path().join("a.c"), folder.path().join("prog"));
    assert_eq!(cc(&["-o"], &[&program, &source]), None);
    assert!(is_translated(&program));
}

/// Comments for documentation are part of what the front end says then, and types go by the names of macros.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_is_read_as_it_was_written_goes_with_what_was_preprocessed() {
    let first = "#include <immintrin.h>\n#include <stdbool.h>\nbool backwards = true;\nlong step(int);\n\
                 /*! Where the first one is. */\nstatic const long begins[2] = {16, 4};\n";
    let main = format!("{first}{}", PROGRAM.replace("i * 4096)", "step(i) + begins[i % 2])"));
    let other = "#include <stdbool.h>\nextern bool backwards;\n\
                 long step(int i) { return (backwards ? i : 20 - i) * 4096l; }\n";
    let folder = folder_with(&[("a.c", &main), ("b.c", other)]);
    let path = |name: &str| folder.path().join(name);
    for sources in [["a.c", "b.c"], ["b.c", "a.c"]] {
        assert_eq!(cc(&["-o"], &[&path("prog"), &path(sources[0]), &path(sources[1])]), None);
        assert!(is_translated(&path("prog")));
    }
}

/// As gnulib has them: an inline function in a header of several units, which asks GCC whether a product overflows.
const SIZES: &str = r#"
#include <stdlib.h>
#ifndef SIZES_INLINE
# define SIZES_INLINE inline
#endif
SIZES_INLINE void *many(size_t n, size_t size)
{
    if (__builtin_mul_overflow_p(n, size, (long)1) || __builtin_add_overflow_p(n, 1, 0))
        exit(3);
    return malloc(n * size);
}
"#;

/// A program of two units with that header, begun by `first`.
fn of_two_units(first: &str) -> tempfile::TempDir {
    let main =
        PROGRAM.replace("#include <fcntl.h>", &format!("{first}#include <fcntl.h>\n#include \"sizes.h\""));
    let main = main.replace("char byte = 0;", "char byte = 0;\n    int *steps = many(20, sizeof *steps);");
    let main =
        main.replace("    for", "    for (int i = 0; i < 20; i++)\n        steps[i] = i * 4096;\n    for");
    let main = main.replace("i * 4096) ==", "steps[i - 1]) ==");
    let other = format!("{first}#define SIZES_INLINE extern inline\n#include \"sizes.h\"\n");
    folder_with(&[("sizes.h", SIZES), ("a.c", &main), ("b.c", &other)])
}

#[test]
fn what_gcc_alone_has_built_in_is_no_hindrance() {
    let folder = of_two_units("");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("data"), vec![3; 100_000]).unwrap();
    assert_eq!(cc(&["-O2", "-o"], &[&path("prog"), &path("a.c"), &path("b.c")]), None);
    assert_eq!(run(&path("prog"), folder.path()), ("60\n".to_owned(), 20));
}

/// Units that are read as they were written: `inline` is what a macro stands for.
#[cfg(target_arch = "x86_64")]
#[test]
fn an_inline_function_may_be_made_so_by_a_macro() {
    let folder = of_two_units("#include <immintrin.h>\n");
    let path = |name: &str| folder.path().join(name);
    let sizes = SIZES
        .replace("__builtin_mul_overflow_p(n, size, (long)1) || __builtin_add_overflow_p(n, 1, 0)", "n > 99");
    fs::write(path("sizes.h"), sizes).unwrap();
    fs::write(path("data"), vec![3; 100_000]).unwrap();
    assert_eq!(cc(&["-O2", "-o"], &[&path("prog"), &path("a.c"), &path("b.c")]), None);
    assert_eq!(run(&path("prog"), folder.path()), ("60\n".to_owned(), 20));
}

#[test]
fn no_other_file_is_touched() {
    let folder = folder_with(&[("a.c", PROGRAM)]);
    let (source, program) = (folder.path().join("a.c"), folder.path().join("prog"));
    let pid = std::process::id();
    let others =
        ["prog.orig".to_owned(), "prog.tmp".to_owned(), "prog.o".to_owned(), format!("prog.foretell-{pid}")];
    for other in &others {
        fs::write(folder.path().join(other), "mine").unwrap();
    }
    assert_eq!(cc(&["-o"], &[&program, &source]), None);
    assert!(is_translated(&program));
    assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o100, 0o100);
    for other in &others {
        assert_eq!(fs::read_to_string(folder.path().join(other)).unwrap(), "mine", "{other}");
    }
    // The source, the program and the others: nothing is left behind.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2 + others.len());
}

/// What a program prints, with the number of its predictions.
fn run(program: &Path, folder: &Path) -> (String, usize) {
    let trace = folder.join("trace");
    let ran = Command::new(program).current_dir(folder).env("FORETELL_SLICE_TRACE", &trace).output().unwrap();
    let lines = fs::read_to_string(&trace).unwrap_or_default();
    let predicted = lines.lines().filter(|line| line.starts_with('P')).count();
    (String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(), predicted)
}

#[test]
fn headers_macros_and_parts_are_translated_and_keep_their_places() {
    let header = r#"
#include <stdio.h>
static inline int read_at(FILE *file, long at, unsigned char *byte)
{
    return fseek(file, at, SEEK_SET) == 0 && fread(byte, 1, 1, file) == 1;
}
#define OPEN(file, name) do { file = fopen(name, "r"); if (!file) return __LINE__; } while (0)
"#;
    let part =
        "#define LAST 20\nstatic FILE *opened(const char *name)\n{\n    return fopen(name, \"r\");\n}\n";
    let main = "#include \"reading.h\"\n#include \"part.inc\"\nint main(void)\n{\n    unsigned char byte = 0;\n    \
                int sum = 0;\n    FILE *file, *other = opened(\"other\");\n    OPEN(file,\n         \"data\");\n    \
                for (int i = LAST; i > 0; i--)\n        if (read_at(file, i * 4096L, &byte)) sum += byte;\n\
                #undef LAST\n    if (other) fclose(other);\n    fclose(file);\n    \
                printf(\"%d %s %d \\xb0\\n\", sum, __FILE__, __LINE__);\n    return 0;\n}\n";
    let folder = folder_with(&[("reading.h", header), ("part.inc", part)]);
    let path = |name: &str| folder.path().join(name);
    // A degree sign in Latin-1.
    let bytes: Vec<u8> = main.replace("\\xb0", "\u{b0}").chars().map(|c| c as u8).collect();
    fs::write(path("a.c"), bytes).unwrap();
    fs::write(path("data"), vec![3; 100_000]).unwrap();
    let real = Command::new("cc").args(["-O2", "-o"]).arg(path("plain")).arg(path("a.c")).status();
    assert!(real.unwrap().success());
    assert_eq!(cc(&["-O2", "-D_FORTIFY_SOURCE=2", "-o"], &[&path("prog"), &path("a.c")]), None);
    let (expected, _) = run(&path("plain"), folder.path());
    let (printed, predicted) = run(&path("prog"), folder.path());
    assert_eq!(printed, expected);
    assert_eq!(predicted, 20);
}

#[test]
fn what_counts_its_lines_is_left_alone() {
    let folder = folder_with(&[("a.c", PROGRAM)]);
    let said = cc(&["--coverage", "-o"], &[&folder.path().join("prog"), &folder.path().join("a.c")]).unwrap();
    assert!(said.contains("--coverage: what is counted"), "{said}");
    assert!(!is_translated(&folder.path().join("prog")));
}

#[test]
fn a_source_may_be_called_as_the_runtime_is() {
    let folder = folder_with(&[("runtime.c", PROGRAM)]);
    let (source, program) = (folder.path().join("runtime.c"), folder.path().join("prog"));
    assert_eq!(cc(&["-o"], &[&program, &source]), None);
    assert!(is_translated(&program));
}

#[test]
fn what_changes_rights_in_an_object_without_source_is_noticed() {
    let hidden = "#include <unistd.h>\nint nobody(void) { return setuid(getuid()); }\n";
    let calling = PROGRAM.replace("char byte", "extern int nobody(void);\n    nobody();\n    char byte");
    let folder = folder_with(&[("a.c", &calling), ("hidden.c", hidden)]);
    let path = |name: &str| folder.path().join(name);
    let real = Command::new("cc").arg("-c").arg(path("hidden.c")).arg("-o").arg(path("hidden.o")).status();
    assert!(real.unwrap().success());
    let said = cc(&["-o"], &[&path("prog"), &path("a.c"), &path("hidden.o")]).unwrap();
    assert!(
        said.contains("hidden.o, whose source is not known, changes what the program may do: setuid()"),
        "{said}"
    );
    assert!(!is_translated(&path("prog")));
}

#[test]
fn a_file_that_a_library_reads_is_no_riddle() {
    let main = "#include <stdio.h>\nint consume(FILE *);\nint main(int argc, char **argv)\n{\n    \
                FILE *in = fopen(argv[argc - 1], \"r\");\n    return in ? consume(in) : 1;\n}\n";
    let folder = folder_with(&[
        ("main.c", main),
        ("library.c", "#include <stdio.h>\nint consume(FILE *in) { return getc(in); }\n"),
    ]);
    let path = |name: &str| folder.path().join(name);
    let library =
        Command::new("cc").arg("-c").arg("-o").args([path("library.o"), path("library.c")]).status();
    assert!(library.unwrap().success());
    let said = cc(&["-o"], &[&path("prog"), &path("main.c"), &path("library.o")]).unwrap();
    assert!(
        said.contains("main.c:5: the file is handed to consume(), and read where no source is"),
        "{said}"
    );
    assert!(!is_translated(&path("prog")));
}

#[test]
fn a_program_in_cxx_is_as_it_was_and_a_line_says_so() {
    let folder = folder_with(&[("a.cpp", PROGRAM), ("b.c", "int unused;\n")]);
    let path = |name: &str| OsString::from(folder.path().join(name));
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let object = [words(&["-c", "-o"]), vec![path("a.o"), path("a.cpp")]].concat();
    let said = compile_cxx_within(&object).unwrap();
    assert_eq!((said.exit_code, said.diagnosis), (0, None));
    let from_object = compile_cxx_within(&[words(&["-o"]), vec![path("one"), path("a.o")]].concat()).unwrap();
    let from_sources =
        compile_within(&[words(&["-o"]), vec![path("two"), path("a.cpp"), path("b.c")]].concat(), None)
            .unwrap();
    for (name, said) in [("one", from_object), ("two", from_sources)] {
        assert_eq!(said.exit_code, 0);
        let line = said.diagnosis.unwrap();
        assert!(line.ends_with(&format!("{name}: compiled unchanged: C++ is not translated")), "{line}");
        assert!(!is_translated(&folder.path().join(name)));
        assert!(Command::new(folder.path().join(name)).status().unwrap().success());
    }
}

fn contains(file: &Path, word: &str) -> bool {
    fs::read(file).unwrap().windows(word.len()).any(|window| window == word.as_bytes())
}

/// Compiles each source to an object, links them, and gives what the program prints and how much it has predicted.
fn from_objects(folder: &Path, flags: &[&str], sources: &[&str]) -> (String, usize) {
    let path = |name: &str| folder.join(name);
    fs::write(path("data"), vec![3; 200_000]).unwrap();
    let mut objects = Vec::new();
    for source in sources {
        objects.push(path(&format!("{source}.o")));
        let words = [flags, &["-c", "-o"]].concat();
        assert_eq!(cc(&words, &[objects.last().unwrap(), &path(source)]), None);
    }
    let program = path("prog");
    let paths: Vec<&Path> = std::iter::once(&program).chain(&objects).map(PathBuf::as_path).collect();
    assert_eq!(cc(&["-o"], &paths), None);
    run(&program, folder)
}

/// In its object the functions get other names, where that says all.
#[cfg(target_pointer_width = "64")]
#[test]
fn what_is_compiled_already_is_not_compiled_again() {
    let folder = folder_with(&[("a.c", PROGRAM)]);
    assert_eq!(from_objects(folder.path(), &["-O2"], &["a.c"]), ("60\n".to_owned(), 20));
    assert!(contains(&folder.path().join("prog"), "__wrap_main"));
    // Files that are opened in two places, of which each is known by its own number.
    let twice = PROGRAM
        .replace("    close(fd);", "    close(fd);\n    fd = open(argv[0], O_RDONLY);\n    close(fd);");
    let folder = folder_with(&[("a.c", &twice)]);
    assert_eq!(from_objects(folder.path(), &["-O2"], &["a.c"]), ("60\n".to_owned(), 20));
    assert!(!contains(&folder.path().join("prog"), "__wrap_main"));
    // What is not an object's own code until it is linked, keeps its names.
    let folder = folder_with(&[("a.c", PROGRAM)]);
    assert_eq!(from_objects(folder.path(), &["-O2", "-flto"], &["a.c"]), ("60\n".to_owned(), 20));
    assert!(!contains(&folder.path().join("prog"), "__wrap_main"));
}

/// What a unit defines, its slice has once more or names: variables with values and without, with a type of their own, of
/// another unit; functions as they were before C89, or that compare for the library. What no way leads to is in nobody's
/// way.
#[test]
fn a_slice_apart_from_its_unit_has_all_that_it_needs() {
    let text = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int order[] = { 5, 3, 4, 1, 2 }, unused = 7;
const struct step { long bytes; } step = { 4096 }, *steps = &step;
static const long table[][2] = { { 1, 2 }, { 3, 4 } };
extern int factor;
static int by_size(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}
static long place(at, more)
    int at;
    long more;
{
    return at * steps->bytes + table[more % 2][0] * factor;
}
int unreached(int fd)
{
    int at;
    __asm__("" : "=r"(at));
    return pread(open("other", O_RDONLY), &at, 1, at);
}
int main(int argc, char **argv)
{
    unsigned char byte = 0;
    int sum = 0, copy[sizeof order / sizeof order[0]], fd = open(argc > 1 ? argv[1] : "data", O_RDONLY);
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++)
        copy[i] = order[i];
    qsort(copy, 5, sizeof copy[0], by_size);
    for (int i = 4; i >= 0; i--)
        if (pread(fd, &byte, 1, place(copy[i], (long)i)) == 1)
            sum += byte + unused;
    close(fd);
    printf("%d\n", sum);
    return 0;
}
"#;
    let folder = folder_with(&[("a.c", text), ("b.c", "int factor = 8192;\n")]);
    for flags in [&["-O2", "-g"][..], &["-O0", "-std=gnu99"], &["-O2", "-flto"]] {
        assert_eq!(from_objects(folder.path(), flags, &["a.c", "b.c"]), ("50\n".to_owned(), 5), "{flags:?}");
    }
}

/// Blocks behind labels, and loops of which a slice needs the beginning only.
#[test]
fn what_a_block_declares_is_its_own() {
    let text = PROGRAM.replace(
        "    for (int i",
        "    if (argc > 1)\n        goto second;\nfirst:\n    {\n        int len = argc * 4096;\n        \
         if (pread(fd, &byte, 1, len) == 1)\n            sum += byte;\n        goto third;\n    }\nsecond:\n    {\n        \
         int len = argc * 4096;\n        if (pread(fd, &byte, 1, len * 2) == 1)\n            sum += byte;\n        \
         goto first;\n    }\nthird:\n    for (int other = open(argv[0], O_RDONLY); other < 0; other++)\n        \
         sum++;\n    for (int other = open(argv[0], O_RDONLY); other < 0; other++)\n        sum++;\n    for (int i",
    );
    let folder = folder_with(&[("a.c", &text)]);
    assert_eq!(from_objects(folder.path(), &["-O2"], &["a.c"]), ("63\n".to_owned(), 21));
}

/// It is said again, and tried with another limit.
#[test]
fn what_passed_a_limit_is_not_tried_again() {
    let folder =
        folder_with(&[("a.c", &format!("{PROGRAM}/* of a limit */\nint limit{};\n", std::process::id()))]);
    let (source, program) = (folder.path().join("a.c"), folder.path().join("prog"));
    let said = |limits: Limits| {
        let words = [source.as_path(), Path::new("-o"), &program].map(OsString::from);
        compile_within(&words, Some(limits)).unwrap().diagnosis
    };
    let none = Limits { processor_s: 0, memory_mib: 16 << 10 };
    let first = said(none).unwrap();
    assert!(first.contains("more than 0 s of processor time"), "{first}");
    assert_eq!(said(none).unwrap(), first);
    assert_eq!(said(Limits { processor_s: 600, memory_mib: 16 << 10 }), None);
    assert!(is_translated(&program));
}
