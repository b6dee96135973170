//! What a compiler's command line asks for, as far as that decides what `foretell cc` does with it.
//!
//! Only what is needed is understood: which arguments are inputs, which take a value of their own, and
//! whether the command compiles, links, or does something that is none of our business.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// What the linker calls a program that was given no name.
pub(super) const DEFAULT_OUTPUT: &str = "a.out";

/// Options whose value is the next argument if it does not follow immediately (GCC manual, "Option Index").
const TAKE_VALUE: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-T",
    "-u",
    "-z",
    "-e",
    "-A",
    "-B",
    "-G",
    "-h",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "-imultilib",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xclang",
    "-aux-info",
    "-target",
    "-arch",
    "-wrapper",
    "--param",
    "--sysroot",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-specs",
    "-Ttext",
    "-Tdata",
    "-Tbss",
    "-Ttext-segment",
    "-iplugindir",
    "-imultiarch",
];

/// Options whose value may also follow without a space; the others of [`TAKE_VALUE`] stand alone.
const JOINED: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-T",
    "-u",
    "-z",
    "-e",
    "-A",
    "-B",
    "-G",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-include",
    "-imacros",
];

/// With one of these the command makes no program and no object file of C, or one that has no main, or it does something
/// beside that a second run would do again: such a command is the compiler's alone.
const NOT_OURS: &[&str] = &[
    "-E",
    "-S",
    "-M",
    "-MM",
    "-fsyntax-only",
    "-###",
    "-shared",
    "-r",
    "-nostdlib",
    "-nostartfiles",
    "-nodefaultlibs",
    "-nolibc",
    "-ffreestanding",
    "-emit-llvm",
    "-analyze",
    "-wrapper",
    "-aux-info",
    "-time",
];

/// How the options begin that make the compiler write more files: it has done so when we compile or link again. What
/// `-gsplit-dwarf` would put beside the program is in it then.
const SIDE_OUTPUTS: &[&str] = &[
    "-save-temps",
    "-gsplit-dwarf",
    "-fstack-usage",
    "-fcallgraph-info",
    "-fsave-optimization-record",
    "-fopt-info",
    "-ftime-report",
    "-fmem-report",
    "-Wp,-M",
];

/// How further ones of them begin.
const NOT_OURS_BEGIN: &[&str] =
    &["-print-", "-dump", "-fdump-", "-fplugin", "-time=", "-Wa,-a", "-fcompare-debug"];

/// The options with two dashes that are understood (GCC manual, "Option Summary"). Many more are other names of what has one
/// dash, `--compile` and `--output` among them, and builds do not use them: a command with any other one is the compiler's
/// alone.
const LONG: &[&str] = &[
    "--param",
    "--std",
    "--sysroot",
    "--coverage",
    "--static",
    "--pipe",
    "--ansi",
    "--pedantic",
    "--target",
];

/// Nested response files are followed this deep; a file that names itself would never end.
const RESPONSE_FILES_DEEP: usize = 8;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The compiler alone.
    Pass,
    /// Object files (`-c`).
    Compile,
    /// A program.
    Link,
}

/// One argument, with the value that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Argument {
    /// An option and, if it has one as an argument of its own, its value.
    Option(OsString, Option<OsString>),
    /// A file in C.
    Source(PathBuf),
    /// Any other file: objects, archives, other languages.
    File(PathBuf),
}

/// A command line.
#[derive(Debug)]
pub(super) struct Invocation {
    /// What it asks for.
    pub(super) action: Action,
    /// Its arguments in order, response files expanded.
    pub(super) arguments: Vec<Argument>,
}

impl Invocation {
    pub(super) fn parse(arguments: &[OsString]) -> Self {
        let mut flat = Vec::new();
        let mut ours = expand(arguments, RESPONSE_FILES_DEEP, &mut flat);
        let mut parsed = Vec::new();
        let mut compile = false;
        let mut language_given = false;
        let mut words = flat.into_iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            if !text.starts_with('-') || text == "-" {
                let path = PathBuf::from(&word);
                let is_c = path.extension() == Some(OsStr::new("c"));
                // What is read from a pipe can be read once.
                ours &= text != "-" && !fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file());
                parsed.push(if is_c || (language_given && !is_object(&path)) {
                    Argument::Source(path)
                } else {
                    Argument::File(path)
                });
                continue;
            }
            let value = if TAKE_VALUE.contains(&text.as_str()) { words.next() } else { None };
            compile |= text == "-c";
            ours &= !is_not_ours(&text, value.as_deref());
            if let Some(language) = value_of("-x", &text, value.as_deref()) {
                ours &= language == "c" || language == "none";
                language_given = language == "c";
            }
            parsed.push(Argument::Option(word, value));
        }
        let has_input = parsed.iter().any(|a| !matches!(a, Argument::Option(..)));
        let mut this = Self { action: Action::Pass, arguments: parsed };
        if ours && has_input && !this.is_a_probe() {
            this.action = if compile { Action::Compile } else { Action::Link };
        }
        this
    }

    /// Tests that configure scripts and CMake compile to learn what the system has: there are hundreds, none
    /// is run for its speed, and a line of diagnosis would be taken for a warning.
    fn is_a_probe(&self) -> bool {
        let probe = |path: &Path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            name.starts_with("conftest") || path.components().any(|c| c.as_os_str() == "CMakeScratch")
        };
        self.sources().any(probe)
            || self.output().is_some_and(|path| probe(&path))
            || std::env::current_dir().is_ok_and(|folder| {
                folder.components().any(|c| c.as_os_str() == "CMakeTmp" || c.as_os_str() == "CMakeScratch")
            })
    }

    /// Is there a source in C++ among the inputs (GCC manual, "Options Controlling the Kind of Output")?
    pub(super) fn has_cxx(&self) -> bool {
        const ENDS: &[&str] = &["cc", "cp", "cxx", "cpp", "CPP", "c++", "C"];
        let is_cxx = |path: &Path| path.extension().is_some_and(|e| ENDS.iter().any(|end| e == *end));
        self.arguments.iter().any(|argument| matches!(argument, Argument::File(path) if is_cxx(path)))
    }

    /// The inputs in C.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Path> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Source(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// The value of `-o`.
    pub(super) fn output(&self) -> Option<PathBuf> {
        self.arguments.iter().rev().find_map(|argument| match argument {
            Argument::Option(option, value) => {
                value_of("-o", &option.to_string_lossy(), value.as_deref()).map(PathBuf::from)
            }
            _ => None,
        })
    }

    /// The options that shape the code of a translation unit: neither inputs nor outputs, dependency files
    /// or the linker's business.
    pub(super) fn compile_flags(&self) -> Vec<OsString> {
        let mut flags = self.flags(|option| {
            !(option == "-c"
                || option.starts_with("-o")
                || option.starts_with("-x")
                || option.starts_with("-M")
                || option.starts_with("-l")
                || option.starts_with("-L")
                || option.starts_with("-Wl,")
                || writes_beside(option)
                || matches!(
                    option,
                    "-Xlinker" | "-T" | "-u" | "-z" | "-e" | "-s" | "-static" | "-pie" | "-no-pie"
                ))
        });
        if !self.flags(|option| option.starts_with("-gsplit-dwarf")).is_empty() {
            flags.insert(0, "-g".into());
        }
        flags
    }

    /// The archives among the inputs, and what `-l` may find: in the folders that are given, and where a system has what was
    /// built on it (GCC manual, "Options for Linking").
    pub(super) fn archives(&self) -> impl Iterator<Item = PathBuf> {
        let values = |name: &'static str| {
            self.arguments.iter().filter_map(move |argument| match argument {
                Argument::Option(option, value) => {
                    value_of(name, &option.to_string_lossy(), value.as_deref())
                }
                _ => None,
            })
        };
        let mut folders: Vec<PathBuf> = values("-L").map(PathBuf::from).collect();
        folders.extend(std::env::var_os("LIBRARY_PATH").iter().flat_map(std::env::split_paths));
        folders.push("/usr/local/lib".into());
        let named = values("-l").flat_map(move |name| {
            let file = name.strip_prefix(':').map_or_else(|| format!("lib{name}.a"), str::to_owned);
            folders.iter().map(|folder| folder.join(&file)).collect::<Vec<_>>()
        });
        let given = self.arguments.iter().filter_map(|argument| match argument {
            Argument::File(path) => Some(path.clone()),
            _ => None,
        });
        given.chain(named).filter(|path| path.is_file())
    }

    /// The option by which the program is to count its own lines, if there is one: what is counted has to be the source's,
    /// and where it is written is the compiler's affair.
    pub(super) fn counts_lines(&self) -> Option<String> {
        self.arguments.iter().find_map(|argument| match argument {
            Argument::Option(option, _) => {
                let text = option.to_string_lossy();
                let counts = [
                    "--coverage",
                    "-coverage",
                    "-ftest-coverage",
                    "-fprofile-arcs",
                    "-fprofile-instr-generate",
                    "-p",
                    "-pg",
                ];
                (counts.contains(&text.as_ref()) || text.starts_with("-fprofile-generate"))
                    .then(|| text.into_owned())
            }
            _ => None,
        })
    }

    /// Of these the ones that a runtime, which is a part of no source, has to be compiled with as well: for
    /// which machine, under which sanitizer, and by which parts of the compiler.
    pub(super) fn machine_flags(&self) -> Vec<OsString> {
        self.flags(|option| {
            (option.starts_with("-m") && !option.starts_with("-mtune"))
                || ["-fsanitize", "--sysroot", "--target", "-B", "-specs"]
                    .iter()
                    .any(|begin| option.starts_with(begin))
                || matches!(option, "-target" | "-isysroot")
        })
    }

    /// The folders that are given for headers, and the headers that are included first.
    pub(super) fn header_places(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let values = |names: &[&str]| -> Vec<PathBuf> {
            let value = |argument: &Argument| match argument {
                Argument::Option(option, value) => names
                    .iter()
                    .find_map(|name| value_of(name, &option.to_string_lossy(), value.as_deref()))
                    .map(PathBuf::from),
                _ => None,
            };
            self.arguments.iter().filter_map(value).collect()
        };
        (values(&["-I", "-iquote", "-isystem", "-idirafter"]), values(&["-include", "-imacros"]))
    }

    /// Flags for the runtime: those of the machine, and whether there is a dynamic linker to ask for names.
    pub(super) fn runtime_flags(&self) -> Vec<OsString> {
        let mut flags = self.machine_flags();
        if !self.flags(|option| matches!(option, "-static" | "-static-pie" | "--static")).is_empty() {
            flags.push("-DFORETELL_STATIC".into());
        }
        flags
    }

    fn flags(&self, wanted: impl Fn(&str) -> bool) -> Vec<OsString> {
        let mut flags = Vec::new();
        for argument in &self.arguments {
            if let Argument::Option(option, value) = argument
                && wanted(&option.to_string_lossy())
            {
                flags.push(option.clone());
                flags.extend(value.clone());
            }
        }
        flags
    }
}

/// Of the flags of a translation unit those that the front end needs, to see the same program: clang stops at
/// many of GCC's optimisations.
pub fn front_end_flags(flags: &[OsString]) -> Vec<String> {
    const WITH_VALUE: &[&str] = &[
        "-I",
        "-D",
        "-U",
        "-include",
        "-imacros",
        "-isystem",
        "-iquote",
        "-idirafter",
        "-isysroot",
        "--sysroot",
        "-target",
    ];
    const ALONE: &[&str] = &[
        "-ansi",
        "-pthread",
        "-nostdinc",
        "-trigraphs",
        "-fshort-enums",
        "-funsigned-char",
        "-fsigned-char",
        "-fgnu89-inline",
        "-fms-extensions",
        "-fplan9-extensions",
        "-m32",
        "-m64",
        "-mx32",
    ];
    let mut kept = Vec::new();
    let mut words = flags.iter().map(|flag| flag.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            kept.push(word);
            kept.extend(words.next());
        } else if TAKE_VALUE.contains(&word.as_str()) {
            words.next();
        } else if ALONE.contains(&word.as_str())
            || WITH_VALUE.iter().any(|option| word.starts_with(option))
            || ["-std=", "-mavx", "-msse"].iter().any(|start| word.starts_with(start))
        {
            kept.push(word);
        }
    }
    kept
}

/// The value that `text`, perhaps with the next argument, gives to `option`.
fn value_of(option: &str, text: &str, next: Option<&OsStr>) -> Option<String> {
    if text == option {
        return next.map(|value| value.to_string_lossy().into_owned());
    }
    if !JOINED.contains(&option) {
        return None;
    }
    text.strip_prefix(option).map(str::to_owned)
}

fn is_object(path: &Path) -> bool {
    let name = path.to_string_lossy();
    [".o", ".a", ".so", ".lo", ".obj"].iter().any(|end| name.ends_with(end)) || name.contains(".so.")
}

/// Does this option make the compiler write more files?
pub(super) fn writes_beside(option: &str) -> bool {
    SIDE_OUTPUTS.iter().any(|begin| option.starts_with(begin))
}

/// What of an option for the linker is given to it again: nothing of what makes it write a map or a list of dependencies,
/// which are of the first link. `None` if the option is another one.
pub(super) fn for_the_linker(option: &str) -> Option<Option<OsString>> {
    const WITH_VALUE: &[&str] = &["-Map", "--Map", "--dependency-file", "--out-implib"];
    let words = option.strip_prefix("-Wl,")?;
    let mut kept = vec!["-Wl"];
    let mut words = words.split(',');
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !WITH_VALUE.iter().any(|name| word.split_once('=').is_some_and(|(first, _)| first == *name))
        {
            kept.push(word);
        }
    }
    Some((kept.len() > 1).then(|| kept.join(",").into()))
}

/// Does this option, whose value may be the next argument, make the command the compiler's alone?
fn is_not_ours(option: &str, value: Option<&OsStr>) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    // The preprocessor, the assembler and the linker write more files by options of their own.
    let writes =
        |word: &OsStr| word.to_string_lossy().starts_with(if option == "-Xassembler" { "-a" } else { "-M" });
    NOT_OURS.contains(&option)
        || NOT_OURS_BEGIN.iter().any(|begin| option.starts_with(begin))
        || (option.starts_with("--") && !LONG.contains(&name))
        || (matches!(option, "-Xpreprocessor" | "-Xassembler" | "-Xlinker") && value.is_some_and(writes))
}

/// Puts the contents of `@FILE` in its place; what is no readable file stays as it is, as the compilers do. `false` if one is
/// no regular file: what is read from a pipe the compiler would not find again.
fn expand(arguments: &[OsString], deep: usize, flat: &mut Vec<OsString>) -> bool {
    let mut whole = true;
    for argument in arguments {
        let text = argument.to_string_lossy();
        let path = text.strip_prefix('@').filter(|_| deep > 0).map(Path::new).filter(|path| path.exists());
        whole &= path.is_none_or(Path::is_file);
        let content = path.filter(|path| path.is_file()).and_then(|path| fs::read_to_string(path).ok());
        match content {
            Some(content) => whole &= expand(&words_of(&content), deep - 1, flat),
            None => flat.push(argument.clone()),
        }
    }
    whole
}

/// The words of a response file: separated by white space, quoted by `'` or `"`, `\` before any character.
fn words_of(text: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (c, Some(q)) if c == q => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take().map(OsString::from)),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn parse(line: &str) -> Invocation {
        Invocation::parse(&words_of(line))
    }

    #[test]
    fn what_is_asked_for() {
        for (line, action) in [
            ("-c a.c -o a.o", Action::Compile),
            ("a.c b.c -o prog -lm", Action::Link),
            ("a.o b.o -o prog", Action::Link),
            ("-xc a.txt", Action::Link),
            ("-E a.c", Action::Pass),
            ("-MM a.c", Action::Pass),
            ("-MMD -MF a.d -c a.c", Action::Compile),
            ("-S a.c", Action::Pass),
            ("-shared a.o -o lib.so", Action::Pass),
            ("-x assembler a.c", Action::Pass),
            ("-x c -", Action::Pass),
            ("--version", Action::Pass),
            ("--compile a.c", Action::Pass),
            ("--output=prog a.c", Action::Pass),
            ("--coverage a.c", Action::Link),
            ("-Xpreprocessor -MD -Xpreprocessor a.d -c a.c", Action::Pass),
            ("-fdump-tree-all -c a.c", Action::Pass),
            ("-c /dev/null -x c", Action::Pass),
            ("-v", Action::Pass),
            ("-print-search-dirs", Action::Pass),
            ("conftest.c -o conftest", Action::Pass),
            ("", Action::Pass),
        ] {
            assert_eq!(parse(line).action, action, "{line}");
        }
    }

    #[test]
    fn inputs_are_told_from_values() {
        let invocation = parse("-o out.c -I inc.c -include pre.c -Dx=y.c real.c thing.o -MF dep.c -lz");
        assert_eq!(invocation.sources().collect::<Vec<_>>(), [Path::new("real.c")]);
        assert_eq!(invocation.output(), Some(PathBuf::from("out.c")));
        assert_eq!(parse("-oprog a.c").output(), Some(PathBuf::from("prog")));
        assert_eq!(parse("-x c data").sources().count(), 1);
        assert_eq!(parse("-x c data -x none more").sources().count(), 1);
    }

    #[test]
    fn flags_by_use() {
        let invocation =
            parse("-O2 -g -Wall -MMD -MF x.d -I inc -DN=3 -std=c99 -fsanitize=address -c a.c -o a.o -lm");
        let flags = invocation.compile_flags();
        assert_eq!(flags, words_of("-O2 -g -Wall -I inc -DN=3 -std=c99 -fsanitize=address"));
        assert_eq!(front_end_flags(&flags), ["-I", "inc", "-DN=3", "-std=c99"]);
        assert_eq!(invocation.machine_flags(), words_of("-fsanitize=address"));
    }

    #[test]
    fn a_map_is_of_the_first_link() {
        let kept =
            |option: &str| for_the_linker(option).map(|kept| kept.map(|kept| kept.into_string().unwrap()));
        assert_eq!(
            kept("-Wl,-z,now,-Map,x.map,--gc-sections"),
            Some(Some("-Wl,-z,now,--gc-sections".to_owned()))
        );
        assert_eq!(kept("-Wl,-Map=x.map"), Some(None));
        assert_eq!(kept("-Wall"), None);
    }

    #[test]
    fn response_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("args");
        let inner = folder.path().join("inner");
        fs::File::create(&inner).unwrap().write_all(b"b\\ c.c").unwrap();
        let text = format!("-DX='a b' \"q.c\"\n -o \tprog @{}", inner.display());
        fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        let invocation = Invocation::parse(&[OsString::from(format!("@{}", path.display()))]);
        assert_eq!(invocation.sources().collect::<Vec<_>>(), [Path::new("q.c"), Path::new("b c.c")]);
        assert_eq!(invocation.compile_flags(), ["-DX=a b"]);
        // No such file: an argument like any other. One that names itself ends somewhere.
        assert_eq!(Invocation::parse(&["@/nonexistent".into()]).arguments.len(), 1);
        fs::File::create(&inner).unwrap().write_all(format!("a.c @{}", inner.display()).as_bytes()).unwrap();
        assert_eq!(Invocation::parse(&[format!("@{}", inner.display()).into()]).sources().count(), 8);
    }
}
