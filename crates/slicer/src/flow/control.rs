//! Control dependence, on the augmented graph.
//!
//! A step depends on a decision if one of its ways leads to the step for certain and another may not
//! (Ferrante, Ottenstein and Warren 1987): for each edge from a to b, the steps from b up to the immediate
//! postdominator of a, which is left out, depend on a. Postdominators are found by iteration over the
//! reverse graph in postorder (Cooper, Harvey and Kennedy 2001).

use super::{EXIT, Graph, Step};

/// For each step of a function, the steps that it depends on.
#[derive(Debug)]
pub(crate) struct Control {
    parents: Vec<Vec<Step>>,
}

impl Control {
    pub(crate) fn new(graph: &Graph) -> Self {
        let count = graph.nodes.len();
        let follows = |s: Step| graph[s].next.iter().chain(&graph[s].lexical).copied();
        let mut before: Vec<Vec<Step>> = vec![Vec::new(); count];
        for step in graph.steps() {
            for next in follows(step) {
                before[next.ix()].push(step);
            }
        }
        let order = postorder(&before);
        let mut number = vec![usize::MAX; count];
        for (at, step) in order.iter().enumerate() {
            number[step.ix()] = at;
        }
        let mut above: Vec<Option<Step>> = vec![None; count];
        above[EXIT.ix()] = Some(EXIT);
        let mut changed = true;
        while changed {
            changed = false;
            // Reverse postorder of the reverse graph: what follows a step comes before it.
            for &step in order.iter().rev().filter(|s| **s != EXIT) {
                let mut found: Option<Step> = None;
                for next in follows(step).filter(|n| above[n.ix()].is_some()) {
                    found = Some(match found {
                        None => next,
                        Some(other) => meet(next, other, &above, &number),
                    });
                }
                if found.is_some() && above[step.ix()] != found {
                    above[step.ix()] = found;
                    changed = true;
                }
            }
        }
        let mut parents = vec![Vec::new(); count];
        for from in graph.steps() {
            let Some(stop) = above[from.ix()] else { continue };
            for to in follows(from) {
                let mut at = to;
                while at != stop && at != EXIT {
                    let list: &mut Vec<Step> = &mut parents[at.ix()];
                    if !list.contains(&from) {
                        list.push(from);
                    }
                    match above[at.ix()] {
                        Some(next) if next != at => at = next,
                        _ => break,
                    }
                }
            }
        }
        Self { parents }
    }

    pub(crate) fn parents(&self, step: Step) -> &[Step] {
        &self.parents[step.ix()]
    }
}

/// Steps from which the exit can be reached, children before parents in a depth-first walk.
fn postorder(before: &[Vec<Step>]) -> Vec<Step> {
    let mut seen = vec![false; before.len()];
    let mut order = Vec::with_capacity(before.len());
    let mut stack = vec![(EXIT, 0usize)];
    seen[EXIT.ix()] = true;
    while let Some((step, at)) = stack.pop() {
        match before[step.ix()].get(at) {
            Some(&next) => {
                stack.push((step, at + 1));
                if !seen[next.ix()] {
                    seen[next.ix()] = true;
                    stack.push((next, 0));
                }
            }
            None => order.push(step),
        }
    }
    order
}

fn meet(mut one: Step, mut other: Step, above: &[Option<Step>], number: &[usize]) -> Step {
    while one != other {
        while number[one.ix()] < number[other.ix()] {
            match above[one.ix()] {
                Some(next) => one = next,
                None => return EXIT,
            }
        }
        while number[other.ix()] < number[one.ix()] {
            match above[other.ix()] {
                Some(next) => other = next,
                None => return EXIT,
            }
        }
    }
    one
}
