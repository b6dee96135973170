//! `foretell cc`: a compiler that can stand in place of the real one, `make CC="foretell cc"`.
//!
//! Every command is first given to the real compiler (`$FORETELL_CC`, otherwise `cc`), word for word; only where a source
//! includes `foretell_slice.h`, the folder of that is named as well (module `headers`).
//! So output, errors, warnings, dependency files and exit codes are its own, and whatever comes after can only add to a result
//! that is there already:
//!
//! - What is the compiler's alone this process becomes (module `arguments` says what that is).
//! - After `-c`, each object file gets a record of its source (module `record`). What that was preprocessed to is found out
//!   beside the compiler, and kept (module `preprocessed`).
//! - After a link, the units of the objects that went into the program (module `linked`), if they have a record, are translated
//!   together, as one whole program, compiled again, and linked again with the same command and the
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
//! A translation that takes too long or too much memory is left (module `limits`), and not tried again (module `given_up`).
//!
//! A build that is broken off leaves nothing of ours (module `broken_off`).
//!
//! `FORETELL_CC_MODELS=FILE` names a table that says what further library functions do, like models.toml.
//!
//! With `FORETELL_CC_KEEP=FOLDER` in the environment the translated sources and the runtime are kept there, in a
//! folder named after the program.

mod arguments;
mod broken_off;
mod compiler;
mod given_up;
mod headers;
mod kept_objects;
mod late;
mod limits;
mod link;
mod linked;
mod objects;
mod parallel;
mod preprocessed;
mod record;
mod runtime_object;
mod symbols;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use arguments::front_end_flags;
use arguments::{Action, DEFAULT_OUTPUT, Invocation};
use broken_off::PassedOn;
pub use compiler::{Compiled, NoCompiler};
use compiler::{Compiler, is_replaceable};
use headers::Headers;
pub use limits::Limits;
use preprocessed::Texts;
use record::Record;

/// Does what the compiler command with these arguments asks for. `prepare` is done to the user's own command before it
/// starts. What is the compiler's alone this process becomes.
///
/// # Errors
/// When the real compiler does not start. All else that may go wrong with a translation is a diagnosis.
pub fn compile(arguments: &[OsString], prepare: fn(&mut Command)) -> Result<Compiled, NoCompiler> {
    let compiler = Compiler::from_environment("FORETELL_CC", "cc", prepare);
    Task::new(arguments).perform(compiler, None, true)
}

/// The same in a process that does much else beside, and goes on: with other limits than those of the environment, as what is
/// counted is the time of this process.
///
/// # Errors
/// When the real compiler does not start.
pub fn compile_within(arguments: &[OsString], limits: Option<Limits>) -> Result<Compiled, NoCompiler> {
    let compiler = Compiler::from_environment("FORETELL_CC", "cc", |_| ());
    Task::new(arguments).perform(compiler, limits, false)
}

/// The same for C++, of which nothing is translated: what is said about each program is that.
///
/// # Errors
/// When the real compiler does not start.
pub fn compile_cxx(arguments: &[OsString], prepare: fn(&mut Command)) -> Result<Compiled, NoCompiler> {
    let mut compiler = Compiler::from_environment("FORETELL_CXX", "c++", prepare);
    if Invocation::parse(arguments).action != Action::Link {
        return Err(compiler.become_it(arguments));
    }
    compiler.passes_on(PassedOn::begin());
    run_cxx(arguments, &compiler)
}

/// The same in a process that goes on.
///
/// # Errors
/// When the real compiler does not start.
pub fn compile_cxx_within(arguments: &[OsString]) -> Result<Compiled, NoCompiler> {
    run_cxx(arguments, &Compiler::from_environment("FORETELL_CXX", "c++", |_| ()))
}

fn run_cxx(arguments: &[OsString], compiler: &Compiler) -> Result<Compiled, NoCompiler> {
    let invocation = Invocation::parse(arguments);
    let status = compiler.run(arguments)?;
    let links = invocation.action == Action::Link && status.success();
    Ok(Compiled::new(status, links.then(|| unchanged_cxx(&invocation))))
}

/// A command: what it asks for, and what the compiler is given.
struct Task {
    invocation: Invocation,
    arguments: Vec<OsString>,
    headers: Option<Headers>,
}

impl Task {
    fn new(arguments: &[OsString]) -> Self {
        let invocation = Invocation::parse(arguments);
        let headers = if headers::are_wanted(&invocation) { Headers::new() } else { None };
        let mut all: Vec<OsString> = headers.iter().flat_map(Headers::flags).collect();
        all.extend_from_slice(arguments);
        Self { invocation, arguments: all, headers }
    }

    fn perform(
        &self,
        mut compiler: Compiler,
        limits: Option<Limits>,
        is_ours: bool,
    ) -> Result<Compiled, NoCompiler> {
        let (invocation, arguments) = (&self.invocation, &self.arguments);
        if is_ours && invocation.action == Action::Pass {
            return Err(compiler.become_it(arguments));
        }
        if is_ours {
            compiler.passes_on(PassedOn::begin());
        }
        match invocation.action {
            Action::Pass => compiler.run(arguments).map(|status| Compiled::new(status, None)),
            Action::Compile => self.remember_sources(&compiler),
            Action::Link if invocation.has_cxx() => {
                let status = compiler.run(arguments)?;
                let diagnosis = status.success().then(|| unchanged_cxx(invocation));
                Ok(Compiled::new(status, diagnosis))
            }
            Action::Link => link::link(&compiler, arguments, invocation, limits),
        }
    }

    /// Compiles, and gives each object that the command makes a record of its source. What that is preprocessed to is found out while
    /// the compiler runs.
    fn remember_sources(&self, compiler: &Compiler) -> Result<Compiled, NoCompiler> {
        let flags = self.invocation.compile_flags();
        let texts = Texts::new(compiler);
        let record = |source: &Path| {
            let record = Record::new(source, &std::env::current_dir().ok()?, &flags)?;
            Some((self.object_of(source), texts.remember(record, self.headers.as_ref())?))
        };
        let (status, records) = compiler.run_beside(&self.arguments, || {
            let records: Vec<_> = self.invocation.sources().filter_map(record).collect();
            texts.trim();
            records
        })?;
        let attach = |(object, record): &(PathBuf, Record)| {
            let failed = record.attach(object).err()?;
            Some(format!("{}: programs of it are compiled unchanged: {failed}", object.display()))
        };
        let made = records.iter().filter(|(object, _)| status.success() && is_replaceable(object));
        Ok(Compiled::new(status, made.filter_map(attach).next()))
    }

    /// Where the object of a source goes.
    fn object_of(&self, source: &Path) -> PathBuf {
        let usual = || Path::new(source.file_name().unwrap_or_default()).with_extension("o");
        self.invocation.output().unwrap_or_else(usual)
    }
}

fn unchanged_cxx(invocation: &Invocation) -> String {
    let program = invocation.output().unwrap_or_else(|| PathBuf::from(DEFAULT_OUTPUT));
    format!("{}: compiled unchanged: C++ is not translated", program.display())
}
