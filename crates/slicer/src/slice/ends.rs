//! Where the slice ends with the program: the program is over, or is no longer who it was.

use crate::ast::program::{Func, Program};
use crate::flow::effects::Effects;
use crate::flow::{ENTRY, EXIT, Graph, Step, What};
use crate::models::{Act, Model, Models};

/// The steps that the slice ends with, for each function: a return of `main`, and calls of what never
/// returns and touches no file before it ends. Where the program changes who it is or what it may do, it goes on
/// and the slice does not: nothing may be opened beyond, as the slice would still be who the program was.
pub(crate) fn ends(
    program: &Program,
    models: &Models,
    graphs: &[Graph],
    effects: &Effects,
) -> Vec<Vec<bool>> {
    let endless = endless(program, models, graphs, effects);
    let of_function = |number: usize| {
        let func = Func(number as u32);
        let returns = |step| func == program.main && graphs[number][step].what == What::Return;
        let ends = |step| returns(step) || is_endless_call(models, effects, &endless, func, step);
        graphs[number].steps().map(ends).collect()
    };
    (0..graphs.len()).map(of_function).collect()
}

/// Is it a call that can only enter what does not return?
fn is_endless_call(models: &Models, effects: &Effects, endless: &[bool], func: Func, step: Step) -> bool {
    effects.of(func, step).call.as_ref().is_some_and(|call| {
        let library = |name: &String| models.get(name).is_some_and(Model::ends_slice);
        !(call.targets.is_empty() && call.externals.is_empty())
            && call.externals.iter().all(library)
            && call.targets.iter().all(|t| endless[t.ix()])
    })
}

/// Functions that never return, and touch no file before they end.
fn endless(program: &Program, models: &Models, graphs: &[Graph], effects: &Effects) -> Vec<bool> {
    let mut endless = vec![false; graphs.len()];
    let working = touching_files(models, graphs, effects);
    loop {
        let mut changed = false;
        for (number, graph) in graphs.iter().enumerate() {
            let func = Func(number as u32);
            if endless[number] || working[number] || func == program.main {
                continue;
            }
            let mut seen = vec![false; graph.nodes.len()];
            let mut open = vec![ENTRY];
            while let Some(step) = open.pop() {
                let visited = std::mem::replace(&mut seen[step.ix()], true);
                if !visited && !is_endless_call(models, effects, &endless, func, step) {
                    open.extend(&graph[step].next);
                }
            }
            if !seen[EXIT.ix()] {
                endless[number] = true;
                changed = true;
            }
        }
        if !changed {
            return endless;
        }
    }
}

/// Functions that work on open files other than by printing, themselves or through others.
fn touching_files(models: &Models, graphs: &[Graph], effects: &Effects) -> Vec<bool> {
    let mut touching = vec![false; graphs.len()];
    loop {
        let before = touching.clone();
        for number in 0..graphs.len() {
            let touches = effects.calls(Func(number as u32)).any(|(_, call)| {
                let io = call.externals.iter().filter_map(|name| models.get(name)?.io);
                call.targets.iter().any(|t| touching[t.ix()])
                    || io.into_iter().any(|io| matches!(io.act(), Act::Reads | Act::Opens))
            });
            touching[number] |= touches;
        }
        if touching == before {
            return touching;
        }
    }
}
