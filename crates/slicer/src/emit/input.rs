//! Standard input that the slice reads ahead of the program (runtime/slice_input.h).
//!
//! What the program reads there it hands over, call by call. Where all reads of it are in the slice, and are of the kinds
//! that the runtime can make by itself, the program shows besides what its stream has in its buffer, and the slice makes
//! the same calls on that before the program does.

use super::emission::Emission;
use crate::ast::Kind;
use crate::ast::program::Func;
use crate::flow::{Callee, Point};
use crate::memory::Object;
use crate::models::{Act, Io};
use crate::slice::known::Known;

/// Does the slice read ahead in standard input?
pub(super) fn is_read_ahead(emission: &Emission<'_>) -> bool {
    let known = emission.known;
    let mut any = false;
    for func in (0..known.graphs.len() as u32).map(Func) {
        let (reachable, threaded) = (known.effects.reachable[func.ix()], known.effects.threaded[func.ix()]);
        for (step, _) in known.effects.calls(func).filter(|_| reachable || threaded) {
            let point = (func, step);
            if !reads_input(known, point) {
                continue;
            }
            any = true;
            if threaded || !emission.channels.contains_key(&point) || kind(known, point).is_none() {
                return false;
            }
        }
    }
    any
}

/// May the call take something from standard input, or move in it?
fn reads_input(known: Known<'_>, point: Point) -> bool {
    let Some(call) = known.call(point) else { return false };
    if known.models_of(call).iter().any(|model| model.stdin) {
        return true;
    }
    let takes = |io: Io| {
        matches!(io.act(), Act::Reads | Act::Moves) && !matches!(io, Io::Close | Io::Fclose | Io::Clearerr)
    };
    known.io(point).is_some_and(|(io, _)| takes(io) && !io.writes_file())
        && known.files(point).contains(&&Object::Stdin)
}

/// What the runtime calls such a read, and which argument is the stream. `None` if it is none that can be made ahead, or
/// if naming its stream twice does something.
pub(super) fn kind(known: Known<'_>, point: Point) -> Option<(&'static str, Option<usize>)> {
    let node = &known.graphs[point.0.ix()][point.1];
    let Some(Callee::Library(name)) = node.call.as_ref().map(|call| &call.callee) else { return None };
    let Some((io, model)) = known.io(point) else {
        return matches!(name.as_str(), "getchar" | "getchar_unlocked").then_some(("getc", None));
    };
    let stream = io.file(model)?;
    let tree = &known.program.tree;
    let named = tree.uncast(*tree.arguments(node.ast).get(stream)?);
    let is_name = matches!(tree[named].kind, Kind::DeclRef | Kind::Member);
    let kind = match io {
        Io::Getc => "getc",
        Io::Fgets => "fgets",
        Io::Getline | Io::Getdelim => "getdelim",
        Io::Fread => "fread",
        _ => return None,
    };
    is_name.then_some((kind, Some(stream)))
}
