//! From the slice back to C.
//!
//! The program's own text stays as it is, but for the calls that are counted ([`program_side`]). The slice
//! is appended at the end of each file, where all types are complete: a version of each function that has
//! kept steps, and private copies of the variables that anybody writes ([`slice_side`]).
//!
//! Expressions are taken from the original text with edits where something changes; where an edit falls
//! into the body of a macro, the expression is printed from the tree instead ([`expression`]). Statements
//! are laid out anew, since most of them lose something ([`statement`]).

mod apart;
mod by_name;
mod calls;
mod declare;
mod emission;
mod expression;
mod input;
mod one_line;
mod program_side;
mod slice_side;
mod statement;
mod twice;
mod unnamed;

use crate::slice::Slice;
pub use by_name::ByName;
use emission::Emission;
pub use program_side::Apart;
pub(crate) use program_side::Unit;

/// The text of each unit. Of those that a preprocessor has left, `declarations` are the runtime's.
pub(crate) fn units(slice: &Slice<'_>, declarations: &[Option<&str>]) -> Vec<Unit> {
    let mut emission = Emission::new(slice, declarations.iter().map(Option::is_some).collect());
    emission.input_ahead = input::is_read_ahead(&emission);
    if declarations.len() > 1 {
        slice_side::named_copies(&mut emission);
    }
    let numbered = declarations.iter().enumerate();
    numbered.map(|(unit, text)| program_side::translate_unit(&emission, unit as u16, *text)).collect()
}
