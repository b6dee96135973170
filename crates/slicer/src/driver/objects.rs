//! The objects of a translated program: of each unit that of the program and that of its slice.
//!
//! Where both are texts of their own, the program's is compiled as its user wants it, and only if something in it is new;
//! the slice's with little optimization and without debug information, as it computes little. Otherwise the unit is
//! compiled as one.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::compiler::Compiler;
use super::kept_objects;
use super::link::Unit;
use super::parallel::in_parallel;
use super::{preprocessed, symbols};
use crate::{ByName, Input, Translation};

/// How a slice is compiled, whatever its program is; a later flag wins.
const OF_SLICES: &[&str] = &["-O1", "-g0"];

/// The objects of a unit. Without one for the program it is the one that it was compiled to.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) program: Option<PathBuf>,
    pub(super) slice: Option<PathBuf>,
    /// Is the linker to put what the slice has in front of `main`?
    pub(super) wraps_main: bool,
}

/// What they are made from.
pub(super) struct Making<'a> {
    pub(super) compiler: &'a Compiler,
    /// The folder of foretell_slice.h.
    pub(super) runtime: &'a Path,
    /// Where the objects go.
    pub(super) folder: &'a Path,
    pub(super) units: &'a [Unit],
    pub(super) translation: &'a Translation,
}

impl Making<'_> {
    /// The objects of all units, in their order, program and slice apart where that can be.
    pub(super) fn objects(&self, apart: bool) -> Result<Vec<Objects>, String> {
        let made = in_parallel(self.units.len(), |number| {
            let in_two = if apart { self.in_two(number) } else { None };
            in_two.map_or_else(|| self.as_one(number), Ok)
        });
        made.into_iter().collect()
    }

    /// `None` if the unit cannot be compiled like that.
    fn in_two(&self, number: usize) -> Option<Objects> {
        let apart = self.translation.apart[number].as_ref()?;
        if let Some(made) = apart.by_name.as_ref().and_then(|by_name| self.by_name(number, by_name)) {
            return Some(made);
        }
        // The slice first: if it is bound to the program, that shows here.
        let slice = apart.slice.as_ref().map(|text| self.compiled(number, "slice-", text, OF_SLICES).ok());
        let slice = slice.map_or(Some(None), |made| made.map(Some))?;
        let program = match &apart.program {
            Some(text) => Some(self.compiled(number, "", text, &[]).ok()?),
            None => self.as_it_was(number).ok()?,
        };
        Some(Objects { program, slice, wraps_main: false })
    }

    /// With the object that there is. `None` if that has not the names that are to be others.
    fn by_name(&self, number: usize, by_name: &ByName) -> Option<Objects> {
        let unit = &self.units[number];
        let bytes = match (&unit.member, &unit.input) {
            (Some(bytes), _) => Cow::Borrowed(bytes.as_slice()),
            (None, Some(path)) if !unit.is_source => Cow::Owned(fs::read(path).ok()?),
            _ => return None,
        };
        let program = self.path(number, "").with_extension("o");
        if !symbols::rename(&program, &bytes, &by_name.symbols, by_name.wraps_main) {
            return None;
        }
        let slice = self.compiled(number, "slice-", &by_name.slice, OF_SLICES).ok()?;
        Some(Objects { program: Some(program), slice: Some(slice), wraps_main: by_name.wraps_main })
    }

    fn as_one(&self, number: usize) -> Result<Objects, String> {
        let program = match self.translation.changed[number] {
            true => Some(self.compiled(number, "", &self.translation.files[number], &[])?),
            false => self.as_it_was(number)?,
        };
        Ok(Objects { program, slice: None, wraps_main: false })
    }

    /// The object of a unit in which nothing is new. It keeps its place in the link, but that of a member of an archive
    /// does not: it might not be found there again, as what is changed stands before all archives, and so before
    /// others that have the same names.
    fn as_it_was(&self, number: usize) -> Result<Option<PathBuf>, String> {
        let unit = &self.units[number];
        if let Some(bytes) = &unit.member {
            let object = self.path(number, "").with_extension("o");
            fs::write(&object, bytes).map_err(|e| format!("{}: {e}", object.display()))?;
            return Ok(Some(object));
        }
        if unit.is_source {
            return self.compiled(number, "", &self.translation.files[number], &[]).map(Some);
        }
        Ok(None)
    }

    fn path(&self, number: usize, kind: &str) -> PathBuf {
        let name = unit_name(number, &self.units[number], &self.translation.inputs[number]);
        self.folder.join(format!("{kind}{name}"))
    }

    /// Compiles a text with the flags of its unit, and `more`.
    fn compiled(&self, number: usize, kind: &str, text: &str, more: &[&str]) -> Result<PathBuf, String> {
        let (unit, input) = (&self.units[number], &self.translation.inputs[number]);
        let source = self.path(number, kind);
        fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
        let object = source.with_extension("o");
        let mut flags: Vec<OsString> = unit.record.flags.iter().map(OsString::from).collect();
        if input.preprocessed.is_some() {
            flags = preprocessed::without_preprocessing(&flags);
        }
        flags.extend(more.iter().map(OsString::from));
        let kept = match input.preprocessed {
            Some(_) => kept_objects::of(self.compiler, &flags, &unit.record.folder, text),
            None => None,
        };
        if kept.as_ref().is_some_and(|kept| kept.take(&object)) {
            return Ok(object);
        }
        // Warnings were given when the original was compiled.
        let mut arguments = flags;
        if input.preprocessed.is_some() {
            arguments.extend(["-w", "-x", "cpp-output"].map(OsString::from));
        } else {
            let beside = unit.record.source.parent().unwrap_or(Path::new("."));
            arguments.extend([
                "-w".into(),
                "-iquote".into(),
                beside.into(),
                "-I".into(),
                self.runtime.into(),
            ]);
        }
        arguments.extend(["-c".into(), "-o".into(), object.clone().into(), source.into()]);
        let what = format!("the translation of {} does not compile", unit.record.source.display());
        self.compiler.run_quietly(Some(&unit.record.folder), &arguments, &what)?;
        kept.iter().for_each(|kept| kept.keep(&object));
        Ok(object)
    }
}

/// Two units may have the same name in different folders.
pub(super) fn unit_name(number: usize, unit: &Unit, input: &Input) -> String {
    let stem = unit.record.source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let suffix = preprocessed::suffix(input);
    if number == 0 { format!("{stem}.{suffix}") } else { format!("{stem}.{number}.{suffix}") }
}
