//! The name that somebody probably meant.

/// The candidate with the fewest edits from `given`, if they are at most a third of its length (at least
/// one).
pub(crate) fn nearest<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (edits(given, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.len() / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements between two names (Levenshtein 1966), row by row. Names
/// longer than any of ours are not worth comparing.
fn edits(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_or_none() {
        let names = ["synth", "xds", "glimpse"];
        assert_eq!(nearest("glimps", names.into_iter()), Some("glimpse"));
        assert_eq!(nearest("xd", names.into_iter()), Some("xds"));
        assert_eq!(nearest("oracle", names.into_iter()), None);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
