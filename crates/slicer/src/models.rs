//! What library functions do: the table `models.toml` and those beside it, and the kinds of calls that work on open files.
//!
//! The kinds under `io` are not in the table because their meaning is more than a list of arguments: a
//! read moves an offset, an open makes a descriptor, and the slice calls something else in their place. For
//! each kind it is said here which argument is the open file, which one the bytes go to, and what the
//! runtime calls it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Error;
use crate::ast::program::Program;
use crate::ast::{Id, Kind};

/// Functions that a model calls back.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Callback {
    /// Which argument is the function.
    pub(crate) argument: usize,
    /// For each parameter of the function: into what argument's memory it points.
    pub(crate) with: Vec<usize>,
}

/// A library function. The fields are explained at the head of `models.toml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Model {
    pub(crate) pure: bool,
    pub(crate) writes: Vec<usize>,
    pub(crate) reads: Option<Vec<usize>>,
    pub(crate) returns: Option<usize>,
    pub(crate) returns_target: Option<usize>,
    pub(crate) copies: Option<(usize, usize)>,
    pub(crate) points: Option<(usize, usize)>,
    pub(crate) allocates: bool,
    /// What it returns lies in the library, at the same place each time.
    pub(crate) place: Option<String>,
    pub(crate) stores: Vec<usize>,
    pub(crate) nested: bool,
    pub(crate) reaches: bool,
    pub(crate) output: bool,
    /// What the slice takes for its result: that it succeeds.
    pub(crate) assumed: Option<String>,
    /// Arguments that name files which it makes, changes or removes.
    pub(crate) makes: Vec<usize>,
    pub(crate) ends: bool,
    pub(crate) departs: bool,
    pub(crate) confines: bool,
    pub(crate) limits: bool,
    pub(crate) frees: Option<usize>,
    pub(crate) state: Option<String>,
    pub(crate) asks: Option<String>,
    pub(crate) globals: Vec<String>,
    pub(crate) forward: bool,
    pub(crate) requests: Vec<i64>,
    pub(crate) many: Option<usize>,
    pub(crate) stdin: bool,
    pub(crate) calls: Option<Callback>,
    pub(crate) thread: Option<usize>,
    pub(crate) io: Option<Io>,
    /// Of a call that prints: which argument is the stream.
    pub(crate) argument: usize,
    pub(crate) list: Option<usize>,
    pub(crate) fills: bool,
    pub(crate) unsupported: Option<String>,
}

impl Model {
    /// Is argument `n` part of the result that is assumed?
    pub(crate) fn assumes_argument(&self, n: usize) -> bool {
        self.assumed.as_ref().is_some_and(|text| text.contains(&format!("${n}")))
    }

    /// Does the slice end where the program calls it?
    pub(crate) fn ends_slice(&self) -> bool {
        self.ends || self.confines && !self.limits
    }

    /// Does the slice make a call of it as the program does? Then it may also be called through a pointer. (The runtime
    /// takes care of free().)
    pub(crate) fn is_called_as_written(&self) -> bool {
        let is_inner = self.io.is_none() && !self.output && !self.forward && !self.stdin && !self.reaches;
        let goes_on = !self.ends && !self.departs && !self.confines;
        let calls_nobody = self.calls.is_none() && self.thread.is_none();
        is_inner && goes_on && calls_nobody && self.unsupported.is_none()
    }

    /// Does the slice say its own end wherever the program names it? Then it may also be called through a pointer.
    pub(crate) fn is_named_anew(&self) -> bool {
        self.ends && !self.confines && self.io.is_none()
    }

    /// Does it return new memory, or store a pointer to some?
    pub(crate) fn makes_memory(&self) -> bool {
        self.allocates || !self.stores.is_empty()
    }

    /// Does it read where argument `n` points?
    pub(crate) fn reads_argument(&self, n: usize) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads.contains(&n))
    }
}

/// Calls that work on open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Io {
    Open,
    Openat,
    Creat,
    Close,
    Dup,
    Dup2,
    Read,
    Pread,
    Readv,
    Preadv,
    Lseek,
    Fstat,
    Ftruncate,
    Write,
    Pwrite,
    Fopen,
    Freopen,
    Fdopen,
    Fclose,
    Fread,
    Fgets,
    Getc,
    Ungetc,
    Getline,
    Getdelim,
    Fscanf,
    Vfscanf,
    Fseek,
    Fseeko,
    Rewind,
    Ftell,
    Ftello,
    Fgetpos,
    Fsetpos,
    Feof,
    Ferror,
    Clearerr,
    Fileno,
    Fwrite,
    Print,
    Mmap,
    Munmap,
    Dirfd,
    Fdopendir,
    Fchdir,
}

/// What a call does to an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Makes it.
    Opens,
    /// Reads from it: this is what is prefetched.
    Reads,
    /// Moves its offset, closes it, writes to it: must happen in the slice as well.
    Moves,
    /// Tells something about it.
    Asks,
    /// Gives another name for it.
    Renames,
    /// Unmaps, and other things without an effect on what is read.
    Nothing,
}

impl Io {
    pub(crate) fn act(self) -> Act {
        match self {
            Self::Open | Self::Openat | Self::Creat | Self::Fopen => Act::Opens,
            Self::Read
            | Self::Pread
            | Self::Readv
            | Self::Preadv
            | Self::Fread
            | Self::Fgets
            | Self::Getc
            | Self::Getline
            | Self::Getdelim
            | Self::Fscanf
            | Self::Vfscanf => Act::Reads,
            Self::Close
            | Self::Fclose
            | Self::Lseek
            | Self::Ftruncate
            | Self::Write
            | Self::Pwrite
            | Self::Ungetc
            | Self::Fseek
            | Self::Fseeko
            | Self::Rewind
            | Self::Fsetpos
            | Self::Freopen
            | Self::Clearerr
            | Self::Fwrite
            | Self::Print => Act::Moves,
            Self::Fstat | Self::Ftell | Self::Ftello | Self::Fgetpos | Self::Feof | Self::Ferror => Act::Asks,
            Self::Dup
            | Self::Dup2
            | Self::Fdopen
            | Self::Fileno
            | Self::Mmap
            | Self::Dirfd
            | Self::Fdopendir
            | Self::Fchdir => Act::Renames,
            Self::Munmap => Act::Nothing,
        }
    }

    /// Does it write to the file?
    pub(crate) fn writes_file(self) -> bool {
        matches!(self, Self::Write | Self::Pwrite | Self::Fwrite | Self::Print | Self::Ftruncate)
    }

    /// Which argument is the open file.
    pub(crate) fn file(self, model: &Model) -> Option<usize> {
        match self {
            Self::Open | Self::Openat | Self::Creat | Self::Fopen | Self::Munmap => None,
            Self::Close
            | Self::Dup
            | Self::Dup2
            | Self::Read
            | Self::Pread
            | Self::Readv
            | Self::Preadv
            | Self::Lseek
            | Self::Fstat
            | Self::Ftruncate
            | Self::Write
            | Self::Pwrite
            | Self::Fdopen
            | Self::Fclose
            | Self::Getc
            | Self::Fscanf
            | Self::Vfscanf
            | Self::Fseek
            | Self::Fseeko
            | Self::Rewind
            | Self::Ftell
            | Self::Ftello
            | Self::Fgetpos
            | Self::Fsetpos
            | Self::Feof
            | Self::Ferror
            | Self::Clearerr
            | Self::Dirfd
            | Self::Fdopendir
            | Self::Fchdir
            | Self::Fileno => Some(0),
            Self::Ungetc => Some(1),
            Self::Freopen | Self::Fgets | Self::Getline => Some(2),
            Self::Fread | Self::Fwrite | Self::Getdelim => Some(3),
            Self::Mmap => Some(4),
            Self::Print => Some(model.argument),
        }
    }

    /// Where the bytes of the file go, of the reads that can do without.
    pub(crate) fn buffer(self) -> Option<usize> {
        match self {
            Self::Read | Self::Pread | Self::Write | Self::Pwrite => Some(1),
            Self::Fread | Self::Fwrite => Some(0),
            _ => None,
        }
    }

    /// The arguments behind which it stores something.
    pub(crate) fn writes(self) -> &'static [usize] {
        match self {
            Self::Read | Self::Pread | Self::Fstat | Self::Fgetpos => &[1],
            Self::Fread | Self::Fgets => &[0],
            Self::Getline | Self::Getdelim => &[0, 1],
            Self::Fscanf | Self::Vfscanf => &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            _ => &[],
        }
    }

    /// The arguments behind which it reads.
    pub(crate) fn reads(self) -> &'static [usize] {
        match self {
            Self::Open | Self::Creat => &[0],
            Self::Openat
            | Self::Readv
            | Self::Preadv
            | Self::Fscanf
            | Self::Vfscanf
            | Self::Fdopen
            | Self::Fsetpos => &[1],
            Self::Fopen | Self::Freopen => &[0, 1],
            Self::Getline | Self::Getdelim => &[0, 1],
            _ => &[],
        }
    }

    /// The name without decoration, as the runtime's calls have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Openat => "openat",
            Self::Creat => "creat",
            Self::Close => "close",
            Self::Dup => "dup",
            Self::Dup2 => "dup2",
            Self::Read => "read",
            Self::Pread => "pread",
            Self::Readv => "readv",
            Self::Preadv => "preadv",
            Self::Lseek => "lseek",
            Self::Fstat => "fstat",
            Self::Ftruncate => "ftruncate",
            Self::Write => "write",
            Self::Pwrite => "pwrite",
            Self::Fopen => "fopen",
            Self::Freopen => "freopen",
            Self::Fdopen => "fdopen",
            Self::Fclose => "fclose",
            Self::Fread => "fread",
            Self::Fgets => "fgets",
            Self::Getc => "getc",
            Self::Ungetc => "ungetc",
            Self::Getline => "getline",
            Self::Getdelim => "getdelim",
            Self::Fscanf => "fscanf",
            Self::Vfscanf => "vfscanf",
            Self::Fseek => "fseek",
            Self::Fseeko => "fseeko",
            Self::Rewind => "rewind",
            Self::Ftell => "ftell",
            Self::Ftello => "ftello",
            Self::Fgetpos => "fgetpos",
            Self::Fsetpos => "fsetpos",
            Self::Feof => "feof",
            Self::Ferror => "ferror",
            Self::Clearerr => "clearerr",
            Self::Fileno => "fileno",
            Self::Fwrite => "fwrite",
            Self::Print => "fprintf",
            Self::Mmap => "mmap",
            Self::Munmap => "munmap",
            Self::Dirfd => "dirfd",
            Self::Fdopendir => "fdopendir",
            Self::Fchdir => "fchdir",
        }
    }

    /// The name of what the program calls in place of a function, with the count.
    pub(crate) fn counted_name(self, function: &str) -> String {
        let unlocked = if self == Self::Getc && function.ends_with("_unlocked") { "_unlocked" } else { "" };
        format!("foretell_real_{}{unlocked}", self.name())
    }

    /// Is it replaced in the program by a call that counts?
    pub(crate) fn is_counted(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Openat
                | Self::Creat
                | Self::Close
                | Self::Dup
                | Self::Dup2
                | Self::Read
                | Self::Pread
                | Self::Readv
                | Self::Preadv
                | Self::Write
                | Self::Pwrite
                | Self::Ftruncate
                | Self::Fopen
                | Self::Freopen
                | Self::Fdopen
                | Self::Fclose
                | Self::Fread
                | Self::Fgets
                | Self::Getc
                | Self::Ungetc
                | Self::Getline
                | Self::Getdelim
                | Self::Fscanf
                | Self::Vfscanf
                | Self::Fseek
                | Self::Fseeko
                | Self::Rewind
                | Self::Fsetpos
                | Self::Mmap
                | Self::Munmap
        )
    }

    /// Can the slice do without the bytes? Then the runtime has a call that only predicts.
    pub(crate) fn can_predict(self) -> bool {
        matches!(self, Self::Read | Self::Pread | Self::Readv | Self::Preadv | Self::Fread | Self::Getc)
    }
}

/// The tables that are built in.
const TABLES: &[&str] =
    &[include_str!("models.toml"), include_str!("models_text.toml"), include_str!("models_system.toml")];

/// All models by the name of the function.
#[derive(Debug)]
pub(crate) struct Models(BTreeMap<String, Model>);

impl Models {
    /// The table that is built in, and the user's own: a later one wins.
    pub(crate) fn new(more: &[String]) -> Result<Self, Error> {
        let mut all = BTreeMap::new();
        for table in TABLES.iter().copied().chain(more.iter().map(String::as_str)) {
            let read: BTreeMap<String, Model> =
                toml::from_str(table).map_err(|e| Error::Models(one_line(&e.to_string())))?;
            all.extend(read);
        }
        Ok(Self(all))
    }

    /// Adds what declarations of the program say: `pure` and `const` attributes, FORETELL_PURE and
    /// FORETELL_WRITES before a declaration. What the table says already, stays.
    pub(crate) fn with_annotations(mut self, program: &Program) -> Self {
        for (root, _) in &program.units {
            for id in program.tree.children(*root) {
                let node = &program.tree[*id];
                if node.kind != Kind::Function || self.0.contains_key(&node.name) {
                    continue;
                }
                let attribute = node.children.iter().any(|c| program.tree[*c].kind == Kind::PureAttribute);
                let ends = node.ty.spelled.contains("noreturn");
                let head = head_of_declaration(program, *id);
                let writes: Vec<usize> = head
                    .match_indices("FORETELL_WRITES")
                    .filter_map(|(at, word)| {
                        let rest = head[at + word.len()..].trim_start().strip_prefix('(')?;
                        rest.split(')').next()?.trim().parse::<usize>().ok()?.checked_sub(1)
                    })
                    .collect();
                let pure = attribute || head.contains("FORETELL_PURE");
                if pure || ends || !writes.is_empty() {
                    let reads = ends.then(Vec::new);
                    self.0.insert(node.name.clone(), Model { pure, ends, writes, reads, ..Model::default() });
                }
            }
        }
        self
    }

    /// The functions by which a program changes who it is or what it may do.
    pub(crate) fn confining(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, model)| model.confines).map(|(name, _)| name.as_str())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Model> {
        let plain = name.strip_prefix("__builtin_").filter(|plain| self.0.contains_key(*plain));
        self.0.get(name).or_else(|| self.0.get(plain?))
    }
}

/// The text of a declaration and of what stands before it, back to the end of the one before.
fn head_of_declaration(program: &Program, id: Id) -> &str {
    let node = &program.tree[id];
    let text = program.sources.text(node.begin.file);
    let Some(before) = text.get(..node.begin.offset as usize) else { return "" };
    let start = before.rfind([';', '}', '#']).map_or(0, |at| at + 1);
    text.get(start..(node.end.offset + node.end.length) as usize).unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Io, Model, Models, TABLES};

    #[test]
    fn the_table_parses_and_a_later_one_wins() {
        let models = Models::new(&["getpid = { pure = true }".to_owned()]).unwrap();
        assert!(models.get("getpid").unwrap().pure);
        assert_eq!(models.get("fread").unwrap().io, Some(Io::Fread));
        assert!(models.get("__builtin_memcpy").is_some());
        assert!(models.get("frobnicate").is_none());
    }

    #[test]
    fn no_function_is_in_two_tables() {
        let mut all = BTreeMap::new();
        for table in TABLES {
            let read: BTreeMap<String, Model> = toml::from_str(table).unwrap();
            for name in read.into_keys() {
                assert_eq!(all.insert(name.clone(), ()), None, "{name}");
            }
        }
    }

    #[test]
    fn a_wrong_table_is_one_line() {
        let wrong = Models::new(&["f = { pur = true }".to_owned()]).unwrap_err().to_string();
        assert!(wrong.contains("pur") && !wrong.contains('\n'), "{wrong}");
    }
}
