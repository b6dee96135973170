//! A link: the real one first, then, if it can be, the translated program in its place.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::arguments::{
    Argument, DEFAULT_OUTPUT, Invocation, for_the_linker, front_end_flags, writes_beside,
};
use super::broken_off::Swept;
use super::compiler::{Compiled, Compiler, NoCompiler};
use super::given_up::GivenUp;
use super::headers::{Headers, cache};
use super::limits::{Left, Limits};
use super::linked::{Member, TRACE, is_program, members};
use super::objects::{Making, Objects, unit_name};
use super::parallel::in_parallel;
use super::preprocessed::{self, Declarations, Texts};
use super::record::{self, Record};
use super::{late, runtime_object};
use crate::models::Models;
use crate::runtime::write_runtime;
use crate::{Input, Options, Translation, translate};

/// Functions by which a program comes to a file that could be prefetched. A program whose sources and headers of its own
/// have none of these words is left alone before anything is analysed.
const OPENING_WORDS: &[&str] =
    &["open", "creat", "fopen", "freopen", "fdopen", "openat", "open64", "fopen64"];

/// A unit of the program and the input of the link that it came with; `None` for a member of an archive.
pub(super) struct Unit {
    pub(super) record: Record,
    pub(super) input: Option<PathBuf>,
    /// Does the link compile it itself?
    pub(super) is_source: bool,
    /// The object that it was compiled to, if it is a member of an archive.
    pub(super) member: Option<Vec<u8>>,
}

/// The real link, then the other. Says why there is no other.
pub(super) fn link(
    compiler: &Compiler,
    arguments: &[OsString],
    invocation: &Invocation,
    limits: Option<Limits>,
) -> Result<Compiled, NoCompiler> {
    let program = invocation.output().unwrap_or_else(|| PathBuf::from(DEFAULT_OUTPUT));
    let before = Made::at(&program);
    let status = compiler.run(arguments)?;
    let made = Made::at(&program);
    // The linker may have been asked for its version, or to write to another place by options of its own.
    if !status.success() || made.is_none() || made == before || !is_program(&program) {
        return Ok(Compiled::new(status, None));
    }
    let diagnosis = match units(compiler, invocation) {
        Ok(units) if units.is_empty() => None,
        Ok(units) => match confining(invocation, &[]) {
            Some(why) => Some(format!("compiled unchanged: {why}")),
            None => replace(compiler, invocation, &units, &program, limits).unwrap_or_else(Some),
        },
        Err(why) => Some(format!("compiled unchanged: {why}")),
    };
    Ok(Compiled::new(status, diagnosis.map(|why| format!("{}: {why}", program.display()))))
}

/// Which file is at a place: its number, and when it was written last.
#[derive(Debug, PartialEq, Eq)]
struct Made(u64, u64, Option<SystemTime>);

impl Made {
    /// `None` if there is no file that another one could take the place of.
    fn at(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self(metadata.dev(), metadata.ino(), metadata.modified().ok()))
    }
}

/// The translation units of the program whose source is known, in the order of the link.
fn units(compiler: &Compiler, invocation: &Invocation) -> Result<Vec<Unit>, String> {
    let folder = std::env::current_dir().map_err(|e| format!("the current folder: {e}"))?;
    let flags = invocation.compile_flags();
    let mut units: Vec<Unit> = Vec::new();
    for argument in &invocation.arguments {
        let (record, path, is_source) = match argument {
            Argument::Option(..) => continue,
            Argument::Source(path) => (Record::new(path, &folder, &flags), path, true),
            Argument::File(path) => (record_of(path), path, false),
        };
        units.extend(record.map(|record| Unit {
            record,
            input: Some(path.clone()),
            is_source,
            member: None,
        }));
    }
    if !may_link_members(invocation) {
        return Ok(units);
    }
    for member in linked_members(compiler, invocation)? {
        let Some(bytes) = member.bytes() else { continue };
        units.extend(record::find(&bytes).map(|record| Unit {
            record,
            input: None,
            is_source: false,
            member: Some(bytes),
        }));
    }
    Ok(units)
}

/// The record of an object that is an input by itself; members of archives only count if they were linked.
fn record_of(path: &Path) -> Option<Record> {
    record::find(&fs::read(path).ok()?)
}

/// Is there an archive among the inputs that has objects whose source is known?
fn may_link_members(invocation: &Invocation) -> bool {
    invocation.archives().any(|path| fs::read(path).is_ok_and(|bytes| record::may_hold_records(&bytes)))
}

/// Which members of archives a link takes is the linker's to say: it links once more, and lists them.
fn linked_members(compiler: &Compiler, invocation: &Invocation) -> Result<Vec<Member>, String> {
    let folder = temporary_folder()?;
    let mut swept = Swept::begin();
    swept.add(folder.path());
    let output = folder.path().join(DEFAULT_OUTPUT);
    let mut arguments = link_arguments(invocation, &[], &[], std::iter::empty(), &output);
    arguments.push(TRACE.into());
    let said = compiler.run_quietly(None, &arguments, "the program does not link again")?;
    drop(folder);
    Ok(members(&String::from_utf8_lossy(&said), invocation))
}

/// A folder that is removed at the end, where the compiler has its own (GCC manual, "Environment Variables Affecting GCC").
fn temporary_folder() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir()
        .or_else(|_| tempfile::tempdir_in("/tmp"))
        .map_err(|e| format!("a temporary folder: {e}"))
}

/// Does a unit, by its text or, where there is none, its source, come to a file?
fn opens_files(units: &[Unit], texts: &[Option<String>]) -> bool {
    let opens = |line: &str| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| OPENING_WORDS.contains(&word))
    };
    units.iter().zip(texts).any(|(unit, text)| match text {
        Some(text) => preprocessed::own_lines(text).any(opens),
        None => {
            let source = fs::read(&unit.record.source).unwrap_or_default();
            String::from_utf8_lossy(&source).lines().any(opens)
        }
    })
}

/// What of the link, of that whose source is not known, names a function by which the program changes who it is or what
/// it may do: the slice would not see that and open files as who the program was. Symbols end with a zero byte in
/// every format of objects.
fn confining(invocation: &Invocation, members: &[Member]) -> Option<String> {
    let models = Models::new(&[]).ok()?;
    let names: BTreeSet<&[u8]> = models.confining().map(str::as_bytes).collect();
    let found = |bytes: &[u8], name: &dyn std::fmt::Display| {
        if record::find(bytes).is_some() {
            return None;
        }
        let named = bytes.split(|byte| *byte == 0).find(|word| names.contains(word))?;
        let function = String::from_utf8_lossy(named);
        Some(format!("{name}, whose source is not known, changes what the program may do: {function}()"))
    };
    let objects = invocation.arguments.iter().filter_map(|argument| match argument {
        Argument::File(path) if path.extension().is_some_and(|e| e == "o" || e == "lo") => Some(path),
        _ => None,
    });
    let object = objects.into_iter().find_map(|path| found(&fs::read(path).ok()?, &path.display()));
    object.or_else(|| {
        // Those of the C library hold these functions and more that are linked for other reasons.
        let is_library = |member: &&Member| {
            member.archive().and_then(Path::file_name).is_some_and(|n| n == "libc.a" || n == "libpthread.a")
        };
        members.iter().filter(|member| !is_library(member)).find_map(|member| found(&member.bytes()?, member))
    })
}

/// Makes the translated program and puts it in the place of the other. Gives what is to be said about a
/// program that was replaced, or why it was not.
fn replace(
    compiler: &Compiler,
    invocation: &Invocation,
    units: &[Unit],
    program: &Path,
    limits: Option<Limits>,
) -> Result<Option<String>, String> {
    let unchanged = |why: String| format!("compiled unchanged: {why}");
    let headers = Headers::new();
    let texts = Texts::new(compiler);
    let text = |number: usize| texts.of(&units[number].record, headers.as_ref());
    let preprocessed: Result<Vec<_>, String> = in_parallel(units.len(), text).into_iter().collect();
    let preprocessed = preprocessed.map_err(unchanged)?;
    // Before anything is made that would have to be removed: most programs of a build are left here.
    if !opens_files(units, &preprocessed) {
        return Ok(None);
    }
    if let Some(option) = invocation.counts_lines() {
        return Err(unchanged(format!("{option}: what is counted are the lines of the program alone")));
    }
    let mut swept = Swept::begin();
    let folder = temporary_folder().map_err(unchanged)?;
    swept.add(folder.path());
    let runtime = folder.path().join("runtime");
    write_runtime(&runtime).map_err(|e| unchanged(e.to_string()))?;
    let inputs = inputs(compiler, invocation, units, preprocessed, &runtime, folder.path(), headers.as_ref());
    let translation = translated(&inputs, limits).map_err(unchanged)?;
    // Where the front end could not read the text it has read the source, as that is now.
    for (unit, _) in units.iter().zip(&translation.inputs).filter(|(_, input)| input.preprocessed.is_none()) {
        texts.check(&unit.record, headers.as_ref()).map_err(unchanged)?;
    }
    if !translation.prefetches() {
        return Ok(first_refusal(&translation).map(unchanged));
    }
    if let Some(kept) = std::env::var_os("FORETELL_CC_KEEP") {
        keep(Path::new(&kept), program, units, &translation).map_err(unchanged)?;
    }
    // A folder of their own: a unit may be called as the runtime is.
    let own = folder.path().join("units");
    fs::create_dir(&own).map_err(|e| unchanged(format!("{}: {e}", own.display())))?;
    let runtime_object = folder.path().join("runtime.o");
    runtime_object::make(compiler, &invocation.runtime_flags(), &runtime, &runtime_object)
        .map_err(unchanged)?;

    let late = late::bind(compiler, &invocation.runtime_flags(), &runtime, program, &runtime_object);

    // On the file system of the program, so that the rename replaces it in one step, and in a folder of its own, so
    // that nobody else's file has the name.
    // A linker writes through a symbolic link.
    let program = &fs::canonicalize(program).map_err(|e| unchanged(format!("{}: {e}", program.display())))?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let making = tempfile::Builder::new()
        .prefix(".foretell-")
        .tempdir_in(beside)
        .map_err(|e| unchanged(format!("{}: {e}", beside.display())))?;
    swept.add(making.path());
    let made = making.path().join(program.file_name().unwrap_or_default());
    let making = Making { compiler, runtime: &runtime, folder: &own, units, translation: &translation };
    let linked = |apart: bool| {
        let objects = making.objects(apart)?;
        let runtime_objects = std::iter::once(&runtime_object).chain(&late);
        let mut arguments = link_arguments(invocation, units, &objects, runtime_objects, &made);
        arguments.push(TRACE.into());
        let said = compiler.run_quietly(None, &arguments, "the translated program does not link")?;
        let mut members = members(&String::from_utf8_lossy(&said), invocation);
        // What is ours is made of sources.
        members.retain(|member| !matches!(member, Member::File(path) if path.starts_with(folder.path())));
        confining(invocation, &members).map_or(Ok(()), Err)
    };
    // Where a slice names what only its program has, the linker says so, and both are made as one.
    linked(true)
        .or_else(|why| if translation.apart.iter().any(Option::is_some) { linked(false) } else { Err(why) })
        .and_then(|()| fs::rename(&made, program).map_err(|e| format!("{}: {e}", program.display())))
        .map_err(unchanged)?;
    Ok(first_refusal(&translation).map(|refusal| format!("not all of its files are prefetched: {refusal}")))
}

/// What is translated: the preprocessed sources, in files below `folder`, and where they cannot be had the sources.
fn inputs(
    compiler: &Compiler,
    invocation: &Invocation,
    units: &[Unit],
    texts: Vec<Option<String>>,
    runtime: &Path,
    folder: &Path,
    headers: Option<&Headers>,
) -> Vec<Input> {
    let declarations = Declarations::new(compiler, &invocation.machine_flags(), runtime, folder);
    let preprocessed = preprocessed::folder(folder).zip(declarations);
    let input = |(number, (unit, text)): (usize, (&Unit, Option<String>))| {
        let mut flags: Vec<OsString> = unit.record.flags.iter().map(OsString::from).collect();
        flags.extend(headers.into_iter().flat_map(Headers::flags));
        let source = Input {
            path: unit.record.source.clone(),
            flags: front_end_flags(&flags),
            folder: Some(unit.record.folder.clone()),
            preprocessed: None,
            otherwise: None,
        };
        let made = preprocessed.as_ref().zip(text).and_then(|((folder, declarations), text)| {
            preprocessed::input(&unit.record, text, declarations, folder, number, source.clone())
        });
        made.unwrap_or(source)
    };
    units.iter().zip(texts).enumerate().map(input).collect()
}

fn translated(inputs: &[Input], limits: Option<Limits>) -> Result<Translation, String> {
    // It is compiled at once, and then says itself what is wrong with it.
    let cache = cache(|name| std::env::var_os(name), "trees");
    let options = Options { models: own_models()?, check: false, cache, ..Options::default() };
    let limits = match limits {
        Some(limits) => limits,
        None => Limits::from_environment(|name| std::env::var(name).ok())?,
    };
    let given_up = GivenUp::of(inputs, limits, &options.models);
    if let Some(why) = given_up.as_ref().and_then(GivenUp::why) {
        return Err(why);
    }
    let inputs = inputs.to_vec();
    let done = limits.keep(move || translate(&inputs, &options).map_err(|e| e.to_string()));
    if let (Err(Left::Limit(why)), Some(given_up)) = (&done, given_up) {
        given_up.remember(why);
    }
    done.map_err(|left| left.to_string())
}

/// The user's table of library models, if `FORETELL_CC_MODELS` names one.
fn own_models() -> Result<Vec<String>, String> {
    let Some(path) = std::env::var_os("FORETELL_CC_MODELS").filter(|path| !path.is_empty()) else {
        return Ok(Vec::new());
    };
    let text = fs::read_to_string(&path);
    let text = text.map_err(|e| format!("FORETELL_CC_MODELS: {}: {e}", Path::new(&path).display()))?;
    Ok(vec![text])
}

fn first_refusal(translation: &Translation) -> Option<String> {
    let first = translation.refusals.first()?;
    let more = match translation.refusals.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    Some(format!("{}: {}; {}{more}", first.place, first.cause, first.remedy))
}

/// Leaves the sources in a folder, for a person to read.
fn keep(folder: &Path, program: &Path, units: &[Unit], translation: &Translation) -> Result<(), String> {
    let folder = folder.join(program.file_name().unwrap_or_default());
    write_runtime(&folder).map_err(|e| e.to_string())?;
    for (number, (unit, text)) in units.iter().zip(&translation.files).enumerate() {
        let path = folder.join(unit_name(number, unit, &translation.inputs[number]));
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// The command of the link once more, with the translated objects in the places of their originals, the rest
/// of them and the runtime before everything, and another output.
fn link_arguments<'a>(
    invocation: &Invocation,
    units: &[Unit],
    objects: &[Objects],
    runtime_objects: impl Iterator<Item = &'a PathBuf>,
    output: &Path,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = runtime_objects.map(OsString::from).collect();
    arguments.extend(objects.iter().filter_map(|made| made.slice.as_ref().map(OsString::from)));
    arguments.extend(objects.iter().any(|made| made.wraps_main).then(|| "-Wl,--wrap=main".into()));
    let from_archives = units.iter().zip(objects).filter(|(unit, _)| unit.input.is_none());
    arguments.extend(from_archives.filter_map(|(_, made)| made.program.as_ref().map(OsString::from)));
    let mut own = units.iter().zip(objects).filter(|(unit, _)| unit.input.is_some()).peekable();
    for argument in &invocation.arguments {
        match argument {
            Argument::Option(option, value) => {
                let text = option.to_string_lossy();
                let is_dropped = ["-o", "-x", "-M"].iter().any(|dropped| text.starts_with(dropped));
                if text == "-c" || is_dropped || writes_beside(&text) {
                    continue;
                }
                arguments.extend(for_the_linker(&text).unwrap_or_else(|| Some(option.clone())));
                arguments.extend(value.clone());
            }
            Argument::Source(path) | Argument::File(path) => {
                let unit = own.next_if(|(unit, _)| unit.input.as_ref() == Some(path));
                arguments.push(unit.and_then(|(_, made)| made.program.as_ref()).unwrap_or(path).into());
            }
        }
    }
    // Since version 2.34 of the C library it is empty.
    arguments.extend(["-pthread", "-ldl", "-o"].map(OsString::from));
    arguments.push(output.into());
    arguments
}
