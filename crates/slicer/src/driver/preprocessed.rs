//! What the real compiler's preprocessor makes of a source: this is what is translated and compiled again.
//!
//! In that text there are no macros and no headers any more, so every call can be written anew, also one in a header, an
//! `.inc` file or the body of a macro. Its line markers keep what the compiler tells about places as it was:
//! `__FILE__`, `__LINE__`, debug information.
//!
//! clang reads it, and knows some words of GCC's headers not: these become macros of clang's own ([`SHIMS`]). If it cannot
//! read the text all the same, or the source has annotations, which are macros, the source itself is translated.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::arguments::front_end_flags;
use super::compiler::Compiler;
use super::headers::{Headers, cache};
use super::record::Record;
use super::runtime_object;
use crate::Input;
use crate::store::{self, Store};

/// Words of GCC that clang 14 does not know, where they are used in headers of glibc 2.36: types of <math.h> and
/// <stdlib.h>, an attribute of <stdlib.h>, the arguments of functions that check sizes; and in those of gnulib: whether a
/// result would fit.
const SHIMS: &[&str] = &[
    "-D_Float32=float",
    "-D_Float32x=double",
    "-D_Float64=double",
    "-D_Float64x=long double",
    "-D_Float128=__float128",
    "-D__malloc__(...)=",
    "-D__builtin_va_arg_pack()=0",
    "-D__builtin_va_arg_pack_len()=0",
    "-D__builtin_add_overflow_p(a,b,c)=__builtin_add_overflow(a,b,&(__typeof__(c)){0})",
    "-D__builtin_sub_overflow_p(a,b,c)=__builtin_sub_overflow(a,b,&(__typeof__(c)){0})",
    "-D__builtin_mul_overflow_p(a,b,c)=__builtin_mul_overflow(a,b,&(__typeof__(c)){0})",
];

/// Stands before the runtime's declarations in the preprocessed text that they are taken from.
const BEGIN: &str = "foretell_declarations_begin;";

/// The declarations of the runtime, without any header.
pub(super) struct Declarations {
    with_streams: String,
    without: String,
}

impl Declarations {
    /// As the compiler preprocesses them; the folder of foretell_slice.h is `runtime`. They are kept like the runtime's
    /// object.
    pub(super) fn new(
        compiler: &Compiler,
        flags: &[OsString],
        runtime: &Path,
        folder: &Path,
    ) -> Option<Self> {
        let store = runtime_object::store();
        let key = runtime_object::key(&compiler.words, flags, "declarations");
        let kept = store.as_ref().and_then(|store| String::from_utf8(store.get(key)?).ok());
        if let Some((with_streams, without)) = kept.as_deref().and_then(|text| text.split_once('\0')) {
            return Some(Self { with_streams: with_streams.to_owned(), without: without.to_owned() });
        }
        let made = Self::preprocess(compiler, flags, runtime, folder)?;
        if let Some(store) = store {
            store.put(key, format!("{}\0{}", made.with_streams, made.without).as_bytes());
        }
        Some(made)
    }

    fn preprocess(compiler: &Compiler, flags: &[OsString], runtime: &Path, folder: &Path) -> Option<Self> {
        let of = |define: &str| {
            let path = folder.join("declarations.c");
            let text = format!("#include <features.h>\n{BEGIN}\n{define}\n#include \"foretell_slice.h\"\n");
            fs::write(&path, text).ok()?;
            let mut arguments = flags.to_vec();
            arguments.extend(["-E", "-P", "-DFORETELL_ALONE", "-I"].map(OsString::from));
            arguments.extend([runtime.into(), path.into()]);
            let said = compiler.command().args(&arguments).stdin(Stdio::null()).output().ok()?;
            let text = String::from_utf8(said.stdout).ok().filter(|_| said.status.success())?;
            let (_, declarations) = text.split_once(BEGIN)?;
            // The pragma makes a header one of the system; here it would be all that follows.
            let lines = declarations.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            Some(lines.collect::<Vec<_>>().join("\n"))
        };
        Some(Self { with_streams: of("")?, without: of("#define FORETELL_NO_STREAMS")? })
    }

    /// Those for a text: what looks into streams needs to know what a stream is.
    fn for_text(&self, text: &str) -> &str {
        if text.contains("_IO_read_ptr") { &self.with_streams } else { &self.without }
    }
}

/// Most bytes of preprocessed texts that are kept.
const MOST_BYTES: u64 = 256 << 20;

/// The preprocessed texts of units. That of an object is kept from when it is compiled: when it is linked, a header may have
/// changed, and the slice would be that of another program.
pub(super) struct Texts<'c> {
    compiler: &'c Compiler,
    store: Option<Store>,
}

impl<'c> Texts<'c> {
    pub(super) fn new(compiler: &'c Compiler) -> Self {
        let folder = cache(|name| std::env::var_os(name), "texts");
        Self { compiler, store: folder.map(|folder| Store::new(folder, MOST_BYTES)) }
    }

    /// Notes in the record what its source is preprocessed to, and keeps that. `None` where it cannot be preprocessed alone.
    pub(super) fn remember(&self, mut record: Record, headers: Option<&Headers>) -> Option<Record> {
        let text = self.preprocess(&record, headers)?;
        let number = number(&text);
        if let Some(store) = &self.store {
            store.put(number, text.as_bytes());
        }
        record.text = Some(number);
        Some(record)
    }

    /// The text of a unit: what it was compiled from. `None` if the source is to be read as it is.
    ///
    /// # Errors
    /// That was another one, and is not kept any more.
    pub(super) fn of(&self, record: &Record, headers: Option<&Headers>) -> Result<Option<String>, String> {
        if fs::read(&record.source).is_ok_and(|source| contains(&source, b"foretell_slice.h")) {
            return self.check(record, headers).map(|()| None);
        }
        let kept = record.text.and_then(|number| String::from_utf8(self.store.as_ref()?.get(number)?).ok());
        if kept.is_some() {
            return Ok(kept);
        }
        let text = self.preprocess(record, headers);
        match record.text {
            Some(compiled) if text.as_deref().map(number) != Some(compiled) => Err(stale(record)),
            _ => Ok(text),
        }
    }

    /// Is the source, with all that it includes, what was compiled?
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check(&self, record: &Record, headers: Option<&Headers>) -> Result<(), String> {
        let is_current =
            |compiled| self.preprocess(record, headers).is_some_and(|text| number(&text) == compiled);
        if record.text.is_none_or(is_current) { Ok(()) } else { Err(stale(record)) }
    }

    fn preprocess(&self, record: &Record, headers: Option<&Headers>) -> Option<String> {
        let mut arguments: Vec<OsString> = record.flags.iter().map(OsString::from).collect();
        arguments.extend(headers.into_iter().flat_map(Headers::flags));
        arguments.extend(["-w", "-E", "-x", "c"].map(OsString::from));
        arguments.push(record.named.clone().into());
        let mut command = self.compiler.command();
        command.args(&arguments).current_dir(&record.folder).stdin(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        Some(ascii(output.stdout))
    }

    pub(super) fn trim(&self) {
        self.store.iter().for_each(|store| _ = store.trim());
    }
}

/// A text's own number.
fn number(text: &str) -> u128 {
    store::key(("text", text))
}

fn stale(record: &Record) -> String {
    format!("{} is not what was compiled, compile it again", record.source.display())
}

/// The preprocessed source of a unit, in a file in `folder`.
pub(super) fn input(
    record: &Record,
    text: String,
    declarations: &Declarations,
    folder: &Path,
    number: usize,
    otherwise: Input,
) -> Option<Input> {
    let path = folder.join(format!("{number}.i"));
    fs::write(&path, &text).ok()?;
    Some(Input {
        preprocessed: Some(declarations.for_text(&text).to_owned()),
        path,
        flags: flags(record),
        folder: Some(record.folder.clone()),
        otherwise: Some(Box::new(otherwise)),
    })
}

/// Flags of the front end for the text: of those of the source the ones that do not speak to a preprocessor.
fn flags(record: &Record) -> Vec<String> {
    let given: Vec<OsString> = record.flags.iter().map(OsString::from).collect();
    let mut flags = vec!["-x".to_owned(), "c".to_owned()];
    flags.extend(SHIMS.iter().map(|flag| (*flag).to_owned()));
    flags.extend(without_preprocessing(&given).iter().map(|flag| flag.to_string_lossy().into_owned()));
    let words: Vec<OsString> = flags.drain(2 + SHIMS.len()..).map(OsString::from).collect();
    flags.extend(front_end_flags(&words));
    flags
}

/// The flags of a compiler for a text that is preprocessed.
pub(super) fn without_preprocessing(flags: &[OsString]) -> Vec<OsString> {
    const WITH_VALUE: &[&str] =
        &["-I", "-D", "-U", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-MF", "-MT", "-MQ"];
    let mut kept = Vec::new();
    let mut words = flags.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if WITH_VALUE.contains(&text.as_ref()) {
            words.next();
        } else if !WITH_VALUE.iter().any(|option| text.starts_with(option)) && !text.starts_with("-Wp,") {
            kept.push(word.clone());
        }
    }
    kept
}

/// The text with an octal escape for every byte that is no UTF-8: such bytes stand in strings and characters only, since
/// comments are gone.
fn ascii(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| {
        let mut text = String::new();
        for byte in e.as_bytes() {
            match byte.is_ascii() {
                true => text.push(char::from(*byte)),
                false => text.push_str(&format!("\\{byte:03o}")),
            }
        }
        text
    })
}

/// The lines that do not come from a header of the system, which its marker says by the flag 3.
pub(super) fn own_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_own = true;
    text.lines().filter(move |line| {
        if let Some(marker) = line.strip_prefix("# ") {
            let flags = marker.rsplit_once('"').map_or("", |(_, flags)| flags);
            is_own = !flags.split(' ').any(|flag| flag == "3");
            return false;
        }
        is_own
    })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// The suffix of a unit's translation, by which a reader and an editor know what it is.
pub(super) fn suffix(input: &Input) -> &'static str {
    if input.preprocessed.is_some() { "i" } else { "c" }
}

/// A folder for the preprocessed texts, within one that is removed at the end.
pub(super) fn folder(within: &Path) -> Option<PathBuf> {
    let folder = within.join("preprocessed");
    fs::create_dir(&folder).ok()?;
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_other_encodings_become_escapes() {
        assert_eq!(ascii(b"\"\xb0\" 1".to_vec()), "\"\\260\" 1");
        assert_eq!(ascii("\"°\"".as_bytes().to_vec()), "\"°\"");
    }

    #[test]
    fn lines_of_the_system_are_told_by_their_markers() {
        let text = "# 1 \"a.c\"\nmine\n# 1 \"/usr/include/stdio.h\" 1 3 4\ntheirs\n# 2 \"a.c\" 2\nmine too\n";
        assert_eq!(own_lines(text).collect::<Vec<_>>(), ["mine", "mine too"]);
    }

    #[test]
    fn flags_of_the_preprocessor_go() {
        let words = ["-O2", "-DN=1", "-I", "inc", "-include", "config.h", "-Wp,-MD,x.d", "-std=c99"];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(without_preprocessing(&words), ["-O2", "-std=c99"]);
    }
}
