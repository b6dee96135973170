//! `foretell cc`: a compiler that can stand in place of the real one, `make CC="foretell cc"`.
//!
//! Every command is first given to the real compiler (`$FORETELL_CC`, otherwise `cc`), unchanged but for the
//! folder of `foretell_slice.h`, which it looks into last. So errors, warnings, dependency files and exit codes are
//! its own, and whatever comes after can only add to a result that is there already:
//!
//! - After `-c`, each object file gets a record of its source (module `record`).
//! - After a link, the linker's own list tells which objects went into the program. Those with a record are
//!   preprocessed (module `preprocessed`), translated together, as one whole program, compiled again, and linked again
//!   with the same command and the
//!   runtime. The new program replaces the old one only when all of this succeeded.
//!
//! - `foretell c++` is the real compiler (`$FORETELL_CXX`, otherwise `c++`) and a line after each link. The same line follows
//!   where `foretell cc` links sources of C++.
//! - The runtime is compiled once and kept (module `runtime_object`). Kept are also what objects were preprocessed to, what
//!   the front end said of that, and translations as objects (module `kept_objects`): one object is linked into many
//!   programs, and most are as they were when a project is built again.
//!
//! A program that is written to something that is no file (`-o /dev/null`) is the compiler's alone: nothing of ours takes
//! the place of a device. What cannot be translated stays as the real compiler left it, and one line says why. Programs that open no
//! file are left alone without a word, as are the probes of configure scripts.
//!
//! A translation that takes too long or too much memory is left (module `limits`).
//!
//! `FORETELL_CC_MODELS=FILE` names a table that says what further library functions do, like models.toml.
//!
//! With `FORETELL_CC_KEEP=FOLDER` in the environment the translated sources and the runtime are kept there, in a
//! folder named after the program.

mod arguments;
mod compiler;
mod headers;
mod kept_objects;
mod late;
mod limits;
mod link;
mod objects;
mod parallel;
mod preprocessed;
mod record;
mod runtime_object;
mod symbols;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use arguments::front_end_flags;
use arguments::{Action, DEFAULT_OUTPUT, Invocation};
pub use compiler::{Compiled, NoCompiler};
use compiler::{Compiler, is_replaceable};
use headers::Headers;
pub use limits::Limits;
use record::Record;

/// Does what the compiler command with these arguments asks for.
///
/// # Errors
/// When the real compiler does not start. All else that may go wrong with a translation is a diagnosis.
pub fn compile(arguments: &[OsString]) -> Result<Compiled, NoCompiler> {
    compile_within(arguments, None)
}

/// The same with other limits than those of the environment: what is counted is the time of this process, and one that does
/// much else beside needs more of it.
///
/// # Errors
/// When the real compiler does not start.
pub fn compile_within(arguments: &[OsString], limits: Option<Limits>) -> Result<Compiled, NoCompiler> {
    let compiler = Compiler::from_environment("FORETELL_CC", "cc");
    let invocation = Invocation::parse(arguments);
    let headers = invocation.sources().next().and_then(|_| Headers::new());
    let more: Vec<OsString> = headers.iter().flat_map(Headers::flags).collect();
    let arguments = &[arguments, &more].concat();
    match invocation.action {
        Action::Pass => compiler.run(arguments).map(|status| Compiled::new(status, None)),
        Action::Compile => {
            let status = compiler.run(arguments)?;
            let diagnosis = if status.success() { remember_sources(&invocation) } else { None };
            Ok(Compiled::new(status, diagnosis))
        }
        Action::Link if invocation.has_cxx() => {
            let status = compiler.run(arguments)?;
            let diagnosis = status.success().then(|| unchanged_cxx(&invocation));
            Ok(Compiled::new(status, diagnosis))
        }
        Action::Link => link::link(&compiler, arguments, &invocation, limits),
    }
}

/// The same for C++, of which nothing is translated: what is said about each program is that.
///
/// # Errors
/// When the real compiler does not start.
pub fn compile_cxx(arguments: &[OsString]) -> Result<Compiled, NoCompiler> {
    let compiler = Compiler::from_environment("FORETELL_CXX", "c++");
    let invocation = Invocation::parse(arguments);
    let status = compiler.run(arguments)?;
    let links = invocation.action == Action::Link && status.success();
    Ok(Compiled::new(status, links.then(|| unchanged_cxx(&invocation))))
}

fn unchanged_cxx(invocation: &Invocation) -> String {
    let program = invocation.output().unwrap_or_else(|| PathBuf::from(DEFAULT_OUTPUT));
    format!("{}: compiled unchanged: C++ is not translated", program.display())
}

/// Gives each object that the command made a record of its source.
fn remember_sources(invocation: &Invocation) -> Option<String> {
    let folder = std::env::current_dir().ok()?;
    let flags = invocation.compile_flags();
    for source in invocation.sources() {
        let object = invocation.output().unwrap_or_else(|| object_of(source));
        if !is_replaceable(&object) {
            continue;
        }
        let record = Record::new(source, &folder, &flags)?;
        if !record.attach(&object) {
            return Some(format!(
                "{}: compiled unchanged: objcopy cannot add a section to it",
                object.display()
            ));
        }
    }
    None
}

/// Where `-c` without `-o` puts the object of a source.
fn object_of(source: &Path) -> PathBuf {
    Path::new(source.file_name().unwrap_or_default()).with_extension("o")
}
