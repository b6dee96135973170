//! The oracle of all tests of translated programs: standard output and exit code are what they were, in both
//! modes, and the accesses that the slice predicts are those that the program makes, in the same order.

// Each test binary uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod data;
pub mod generator;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use foretell_slicer::{Input, Options, RUNTIME_SOURCE, Translation, translate, write_runtime};

/// Seconds after which a program is taken to hang. Far above what the slowest needs on a loaded machine.
const HANGS_AFTER_S: &str = "300";

/// How a translated program is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Plain,
    Address,
    Thread,
}

impl Build {
    pub const ALL: [Self; 3] = [Self::Plain, Self::Address, Self::Thread];

    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["-O1", "-g"],
            Self::Address => &["-O1", "-g", "-fsanitize=address"],
            Self::Thread => &["-O1", "-g", "-fsanitize=thread"],
        }
    }
}

/// The folder of `foretell_slice.h`, where all is kept that the tests of one binary share. It stays below target/.
pub fn runtime_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        write_runtime(&folder).unwrap();
        folder
    })
}

/// What a test binary compiles once a build, whichever tests want it.
pub struct Once([OnceLock<PathBuf>; Build::ALL.len()]);

impl Once {
    pub const fn new() -> Self {
        Self([const { OnceLock::new() }; Build::ALL.len()])
    }

    /// The file `name` of this build, made by a compiler with the arguments that `arguments` adds. It is renamed to its
    /// place: another run of the same tests may be at work there.
    pub fn compile(&self, build: Build, name: &str, arguments: impl FnOnce(&mut Command)) -> &Path {
        self.0[build as usize].get_or_init(|| {
            let made = runtime_folder().join(format!("{build:?}-{name}"));
            let unfinished = runtime_folder().join(format!("{build:?}-{}-{name}", std::process::id()));
            let mut command = Command::new("cc");
            command.args(["-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&unfinished);
            arguments(&mut command);
            succeed(&mut command, "it compiles without warnings");
            fs::rename(unfinished, &made).unwrap();
            made
        })
    }
}

fn runtime_object(build: Build) -> &'static Path {
    static OBJECTS: Once = Once::new();
    OBJECTS.compile(build, "runtime.o", |command| {
        command.args(build.flags()).args(["-O2", "-c"]).arg(runtime_folder().join(RUNTIME_SOURCE));
    })
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command, what: &str) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{what}: {command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Translates the sources of a program.
pub fn translated(sources: &[PathBuf], flags: &[String]) -> Translation {
    translated_with(sources, flags, &Options::default())
}

pub fn translated_with(sources: &[PathBuf], flags: &[String], options: &Options) -> Translation {
    let inputs: Vec<Input> = sources
        .iter()
        .map(|path| Input {
            path: path.clone(),
            flags: flags.to_vec(),
            folder: None,
            preprocessed: None,
            otherwise: None,
        })
        .collect();
    translate(&inputs, options).unwrap_or_else(|e| panic!("{}: {e}", sources[0].display()))
}

/// Compiles originals, or translations with the runtime.
pub fn compile(sources: &[PathBuf], flags: &[String], translated: bool, build: Build, program: &Path) {
    let mut command = Command::new("cc");
    command.args(build.flags()).args(["-w", "-pthread"]).args(flags);
    if translated {
        command.arg("-I").arg(runtime_folder()).arg(runtime_object(build));
    }
    command.args(sources).arg("-lm").arg("-o").arg(program);
    succeed(&mut command, "a program compiles");
}

/// The compilers have nothing to say about the translation that they do not say about the original.
pub fn compiles_without_warnings(original: &Path, translation: &Path, flags: &[String]) {
    let warnings = |compiler: &str, source: &Path| {
        let mut command = Command::new(compiler);
        command.args(["-std=gnu11", "-Wall", "-Wextra", "-fsyntax-only", "-O1", "-iquote"]);
        command.arg(original.parent().unwrap()).arg("-I").arg(runtime_folder()).args(flags).arg(source);
        let output = succeed(&mut command, "it compiles");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (text.lines().filter(|line| line.contains("warning:")).count(), text)
    };
    for compiler in ["gcc", "clang"] {
        let before = warnings(compiler, original);
        let after = warnings(compiler, translation);
        assert!(after.0 <= before.0, "{compiler} on the translation of {}:\n{}", original.display(), after.1);
    }
}

/// One run of a program.
#[derive(Debug)]
pub struct Ran {
    pub stdout: Vec<u8>,
    pub code: Option<i32>,
    pub stderr: String,
    /// What a sanitizer wrote, by both sides.
    pub sanitizer: String,
}

/// Runs a program in a folder. `mode` is that of the slice, and `trace` its trace.
pub fn run(
    program: &Path,
    args: &[String],
    folder: &Path,
    stdin: Option<&Path>,
    slice: Option<(&str, &Path)>,
) -> Ran {
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("log");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", HANGS_AFTER_S]).arg(program).args(args).current_dir(folder);
    for name in ["FORETELL_SLICE", "FORETELL_SLICE_TRACE", "FORETELL_SLICE_STATS"] {
        command.env_remove(name);
    }
    // The slice keeps what it allocates until it ends.
    command.env("ASAN_OPTIONS", format!("detect_leaks=0:log_path={}", log.display()));
    command.env("TSAN_OPTIONS", format!("log_path={}", log.display()));
    if let Some((mode, trace)) = slice {
        command.env("FORETELL_SLICE", mode).env("FORETELL_SLICE_TRACE", trace);
        command.env("FORETELL_SLICE_STATS", statistics(trace));
    }
    command.stdin(match stdin {
        Some(path) => Stdio::from(fs::File::open(path).unwrap()),
        None => Stdio::null(),
    });
    let output = command.output().unwrap();
    let mut sanitizer = String::new();
    for entry in fs::read_dir(logs.path()).unwrap() {
        sanitizer += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    Ran {
        stdout: output.stdout,
        code: output.status.code(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        sanitizer,
    }
}

/// Where the run with this trace leaves its statistics.
fn statistics(trace: &Path) -> PathBuf {
    trace.with_extension("statistics")
}

/// What the runtime says of the run with this trace: how the slice ended, among others.
fn said(trace: &Path) -> String {
    fs::read_to_string(statistics(trace)).unwrap_or_default()
}

/// The predicted and the real accesses of a trace, each a line.
pub fn sequences(trace: &Path) -> (Vec<String>, Vec<String>) {
    let text = fs::read_to_string(trace).unwrap_or_default();
    let side =
        |mark: &str| text.lines().filter_map(|line| line.strip_prefix(mark)).map(str::to_owned).collect();
    (side("P\t"), side("R\t"))
}

/// Where the two sequences of a trace part, for a person to read; `None` if they are the same.
pub fn difference(trace: &Path) -> Option<String> {
    let (predicted, real) = &sequences(trace);
    if predicted == real {
        return None;
    }
    let at = predicted.iter().zip(real).take_while(|(p, r)| p == r).count();
    let around = |lines: &[String]| {
        let from = at.saturating_sub(2);
        lines
            .iter()
            .enumerate()
            .skip(from)
            .take(5)
            .map(|(n, line)| format!("    {n}: {line}\n"))
            .collect::<String>()
    };
    Some(format!(
        "{} predicted, {} real; they part at {at}\n  predicted:\n{}  real:\n{}  {}",
        predicted.len(),
        real.len(),
        around(predicted),
        around(real),
        said(trace)
    ))
}
