//! Application-specific file prefetching, made from a program's own source.
//!
//! A C program becomes the same program and, beside it, a *slice* of it: what its file accesses depend on
//! and nothing else. The slice runs ahead and prefetches what the program is about to read (Yang, Mitra and
//! Chiueh 2002). The translation goes through these stages, one module each:
//!
//! | stage | what it does |
//! | --- | --- |
//! | `ast` | clang reads the C; its tree as numbered nodes, with places in the text |
//! | `flow` | control-flow graphs at the level of single effects; control dependence, reaching definitions |
//! | `memory` | objects, locations, and what may point where |
//! | `slice` | which steps are kept, which sites are refused and why |
//! | `emit` | the program and its slice as C |
//!
//! The program's behaviour never depends on the slice: it computes nothing for the program, and when it
//! predicts wrongly it ends.

mod ast;
mod check;
mod database;
pub mod driver;
mod emit;
mod error;
mod flow;
mod input;
mod memory;
mod models;
mod report;
mod runtime;
mod slice;
mod store;

use std::path::PathBuf;

use ast::program::Program;
use ast::{Sources, Tree};
use flow::Graph;
use flow::control::Control;
use flow::effects::Effects;
use flow::lower::Lowering;
use flow::reach::Kept;
use memory::Memory;
use memory::points::{Points, Slot};
use models::Models;
use slice::Slice;
use slice::analysis::Analysis;
use slice::judge::Verdict;
use store::Store;

pub use database::read_database;
pub use driver::front_end_flags;
pub use emit::{Apart, ByName};
pub use error::Error;
pub use input::Input;
pub use report::{Outcome, Report, SiteReport};
pub use runtime::{RUNTIME_SOURCE, write_runtime};
pub use slice::judge::Refusal;

/// How to translate.
#[derive(Debug, Clone)]
pub struct Options {
    /// The front end: `clang`, or another version of it by name.
    pub clang: String,
    /// Further tables of library models, as text; a later one wins.
    pub models: Vec<String>,
    /// Explain why something is kept: a function's name, or `LINE` or `FILE:LINE`.
    pub why: Option<String>,
    /// Do not tell parts of objects apart, as is done for programs that are too large for it. Tests look at small ones
    /// that way.
    pub coarse: bool,
    /// Let the front end look at the translation, and take it back where that does not compile. Who compiles it anyway
    /// finds out without.
    pub check: bool,
    /// A folder where what the front end says of preprocessed inputs is kept for the next time.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clang: "clang".to_owned(),
            models: Vec::new(),
            why: None,
            coarse: false,
            check: true,
            cache: None,
        }
    }
}

/// A translated program.
#[derive(Debug)]
pub struct Translation {
    /// One text for each input, in their order. They are the originals if nothing is prefetched.
    pub files: Vec<String>,
    /// For each of them, whether anything in it is new.
    pub changed: Vec<bool>,
    /// Of those that were preprocessed, and that something is new in, the program and its slice apart, where they can be
    /// compiled apart.
    pub apart: Vec<Option<Apart>>,
    /// The inputs as they were read: what could not be read, is here what stood in for it.
    pub inputs: Vec<Input>,
    /// Open sites that are not sliced because something is in the way.
    pub refusals: Vec<Refusal>,
    /// What became of each open site, and how much of the program was kept.
    pub report: Report,
    /// The answer to [`Options::why`], line by line.
    pub why: Vec<String>,
}

impl Translation {
    /// Takes everything back.
    fn give_up(&mut self, refusal: &Refusal, program: &Program) {
        self.report.refuse_all(refusal);
        self.refusals.push(refusal.clone());
        self.files = originals(program);
        self.changed = vec![false; self.files.len()];
        self.apart = vec![None; self.files.len()];
    }

    /// Is anything prefetched at all?
    pub fn prefetches(&self) -> bool {
        self.report.sites.iter().any(|s| matches!(s.outcome, Outcome::Prefetched { .. }))
    }
}

/// Stack of the thread that translates: syntax trees are walked recursively, and the longest expressions
/// that are found in practice, generated tables, nest to some ten thousand levels.
const STACK_BYTES: usize = 1 << 30;

/// Most bytes of kept units: a unit of 1,000 lines takes some 200 KB.
pub(crate) const MOST_KEPT_BYTES: u64 = 256 << 20;

/// Translates a program.
///
/// # Errors
///
/// When a file cannot be read, is no C, or is no complete program. Refused sites are no error.
pub fn translate(inputs: &[Input], options: &Options) -> Result<Translation, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let handle = thread
            .spawn_scoped(scope, || translate_here(inputs, options))
            .map_err(|reason| Error::File { path: PathBuf::from("thread"), reason })?;
        match handle.join() {
            Ok(translated) => translated,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn translate_here(inputs: &[Input], options: &Options) -> Result<Translation, Error> {
    let models = Models::new(&options.models)?;
    let mut tree = Tree::default();
    let mut sources = Sources::default();
    let mut units = Vec::new();
    let mut read = Vec::new();
    let store = options.cache.as_ref().map(|folder| Store::new(folder.clone(), MOST_KEPT_BYTES));
    ast::front_end::for_each(inputs, &options.clang, store.as_ref(), |input, said| {
        let root = ast::dump::read_unit(&mut tree, &mut sources, &input, said, units.len() as u16)?;
        units.push((root, sources.number(&input.path)));
        read.push(input);
        Ok(())
    })?;
    store.iter().for_each(|store| _ = store.trim());
    let inputs = &read;
    sources.load();
    for (input, (_, file)) in inputs.iter().zip(&units) {
        if input.preprocessed.is_some() {
            sources.read_markers(*file);
        }
    }
    let old_inline = inputs.iter().enumerate().filter(|(_, input)| has_old_inline(&input.flags));
    let program = Program::new(tree, sources, units, old_inline.map(|(unit, _)| unit as u16).collect())?;
    let models = models.with_annotations(&program);
    let analysis = analyse(&program, &models, options.coarse)?;
    let mut translation = analysis.slice(|slice| finish(&slice, inputs, options));
    if options.check
        && translation.prefetches()
        && let Some((unit, complaint)) = check::first_complaint(inputs, &translation.files, &options.clang)?
    {
        translation.give_up(
            &Refusal {
                place: program.sources.given_path(program.units[unit].1).display().to_string(),
                cause: format!("the translation does not compile, which is a defect of it: {complaint}"),
                chain: Vec::new(),
                remedy: "report it with this source; the program itself is untouched".to_owned(),
            },
            &program,
        );
    }
    Ok(translation)
}

/// Do these flags make `inline` what it was before C99 (GCC manual, "An Inline Function is As Fast As a Macro")?
fn has_old_inline(flags: &[String]) -> bool {
    const OLD: &[&str] =
        &["-ansi", "-std=c89", "-std=c90", "-std=gnu89", "-std=gnu90", "-std=iso9899:1990", "-fgnu89-inline"];
    flags.iter().any(|flag| OLD.contains(&flag.as_str()))
}

/// A program in steps, and what may point where in it.
struct Lowered {
    graphs: Vec<Graph>,
    memory: Memory,
    points: Points,
    marks: Vec<Slot>,
}

fn lower(program: &Program, models: &Models, memory: Memory) -> Result<Lowered, Error> {
    let mut lowering = Lowering::new(program, models, memory);
    let graphs = lowering.all_functions();
    let Lowering { mut memory, mut points, marks, .. } = lowering;
    points.solve(program, models, &mut memory)?;
    Ok(Lowered { graphs, memory, points, marks })
}

fn analyse<'a>(program: &'a Program, models: &'a Models, coarse: bool) -> Result<Analysis<'a>, Error> {
    let first = if coarse { Memory::coarse() } else { Memory::default() };
    let lowered = match lower(program, models, first) {
        Err(Error::TooLarge { .. }) => lower(program, models, Memory::coarse())?,
        other => other?,
    };
    let Lowered { graphs, mut memory, mut points, marks } = lowered;
    let effects = Effects::new(program, models, &graphs, &mut memory, &mut points);
    let control = graphs.iter().map(Control::new).collect();
    let through_pointers = slice::analysis::through_pointers(&graphs, &effects);
    let ends = slice::ends::ends(program, models, &graphs, &effects);
    let one_way = slice::sites::one_way(program, models, &graphs, &effects, &memory);
    let asked = slice::asking::of_program(program, models, &graphs, &effects);
    let kept = Kept::new(&graphs, &effects, &memory);
    Ok(Analysis {
        one_way,
        program,
        models,
        memory,
        points,
        marks,
        graphs,
        effects,
        control,
        through_pointers,
        ends,
        asked,
        kept,
    })
}

fn finish(slice: &Slice<'_>, inputs: &[Input], options: &Options) -> Translation {
    let program = slice.known.program;
    let mut refusals: Vec<Refusal> = Vec::new();
    for (_, verdict) in &slice.sites {
        if let Verdict::Refused(refusal) = verdict {
            refusals.push(refusal.clone());
        }
    }
    let mut report = report::Report::new(slice);
    if refusals.is_empty() && !slice.sites.iter().any(|(_, verdict)| matches!(verdict, Verdict::Sliced(_))) {
        refusals.extend(slice::judge::handed_away(slice.known, &slice.sites));
    }
    if let Some(refusal) = slice.only_configuration() {
        report.refuse_all(&refusal);
        refusals.insert(0, refusal);
    }
    let why = options.why.as_ref().map(|what| report::why(slice, what)).unwrap_or_default();
    let mut translation = Translation {
        files: originals(program),
        changed: vec![false; inputs.len()],
        apart: vec![None; inputs.len()],
        inputs: inputs.to_vec(),
        refusals,
        report,
        why,
    };
    if !translation.prefetches() {
        return translation;
    }
    let declarations: Vec<Option<&str>> = inputs.iter().map(|input| input.preprocessed.as_deref()).collect();
    let translated = emit::units(slice, &declarations);
    if let Some(node) = translated.iter().flat_map(|u| &u.unprintable).next() {
        let refusal = Refusal {
            place: program.describe(*node),
            cause: "this cannot be written in another way: it is made by a macro".to_owned(),
            chain: Vec::new(),
            remedy: "write the call without the macro".to_owned(),
        };
        translation.give_up(&refusal, program);
        return translation;
    }
    let (texts, apart): (Vec<_>, Vec<_>) = translated.into_iter().map(|u| (u.text, u.apart)).unzip();
    translation.apart = apart;
    translation.changed = texts.iter().zip(&translation.files).map(|(new, old)| new != old).collect();
    translation.files = texts;
    translation
}

fn originals(program: &Program) -> Vec<String> {
    program.units.iter().map(|(_, file)| program.sources.text(*file).to_owned()).collect()
}
