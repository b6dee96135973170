//! What can be sliced to its end.

use std::collections::BTreeSet;

use crate::memory::Object;
use crate::memory::points::{Points, Slot};

use super::judge::{self, Verdict};
use super::known::Known;
use super::of_sites::close;
use super::sites::{self, Site};
use super::ways::reached;

/// Which sites are sliced, and why others are not.
pub(super) struct Choice {
    pub(super) sites: Vec<Site>,
    pub(super) verdicts: Vec<Verdict>,
    /// Those that are sliced.
    pub(super) chosen: Vec<usize>,
}

/// What can be sliced to its end.
pub(super) fn choose(known: Known<'_>, points: &Points, marks: &[Slot]) -> Choice {
    let found = sites::find(known, known.graphs.len());
    let mut verdicts: Vec<Verdict> = found.iter().map(|_| Verdict::NotRead).collect();
    let marked: BTreeSet<_> = marks.iter().flat_map(|s| points.targets(*s)).copied().collect();
    let is_marked = |site: &Site| {
        let file = Object::Open(site.call);
        marks.is_empty() || marked.iter().any(|l| *known.memory.what(*l) == file)
    };
    let mut wanted = Vec::new();
    let reached = reached(known);
    for (number, site) in found.iter().enumerate() {
        if !judge::is_candidate(site) {
            continue;
        }
        if !is_marked(site) {
            verdicts[number] = Verdict::NotMarked;
            continue;
        }
        if let Some(refusal) = judge::beyond_reach(known, &reached, site) {
            verdicts[number] = Verdict::Refused(refusal);
            continue;
        }
        wanted.push(number);
    }
    let mut chosen = wanted.clone();
    let mut closure = close(known, &found, &chosen);
    // Whatever is in the way of one is in the way of all together: most often there is nothing.
    if judge::poison(known, &closure, &found, &chosen).is_some() {
        chosen.retain(|number| {
            let alone = [*number];
            let closure = close(known, &found, &alone);
            let poison = judge::poison(known, &closure, &found, &alone);
            if let Some(poison) = &poison {
                verdicts[*number] = Verdict::Refused(poison.refusal(known, &closure));
            }
            poison.is_none()
        });
        if chosen.len() < wanted.len() {
            closure = close(known, &found, &chosen);
        }
    }
    while let Some(poison) = judge::poison(known, &closure, &found, &chosen) {
        let Some(site) = poison.site(known, &closure, &found, &chosen) else { break };
        verdicts[site] = Verdict::Refused(poison.refusal(known, &closure));
        chosen.retain(|n| *n != site);
        closure = close(known, &found, &chosen);
    }
    Choice { sites: found, verdicts, chosen }
}
