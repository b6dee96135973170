//! The nearest of a set of names, for messages about mistyped ones.

/// The name of `names` that a typing error may have turned into `typed`: the one with the smallest edit
/// distance, if that is at most a third of the longer name's length (at least 1). Ties go to the first.
#[must_use]
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase();
    names
        .into_iter()
        .map(|name| (distance(typed.as_bytes(), name.as_bytes()), name))
        .filter(|(d, name)| *d <= (typed.len().max(name.len()) / 3).max(1))
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// `; did you mean 'NAME'?` or `; known are A, B, C`: the end of a message about an unknown name.
#[must_use]
pub fn suggestion<'a>(typed: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(typed, names.clone()) {
        Some(name) => format!("; did you mean '{name}'?"),
        None => format!("; known are {}", names.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string
/// alignment). Names are short: the quadratic table is kept as three rows. What is longer than any name
/// is cut first, so a huge argument costs nothing.
fn distance(a: &[u8], b: &[u8]) -> usize {
    const LONGEST_NAME_BYTES: usize = 64;
    let (a, b) = (&a[..a.len().min(LONGEST_NAME_BYTES)], &b[..b.len().min(LONGEST_NAME_BYTES)]);
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        assert_eq!(distance(b"mru", b"mru"), 0);
        assert_eq!(distance(b"mur", b"mru"), 1);
        assert_eq!(distance(b"budgte", b"budget"), 1);
        assert_eq!(distance(b"", b"abc"), 3);
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("mur", ["lru", "mru"]), Some("mru"));
        assert_eq!(nearest("MRU", ["lru", "mru"]), Some("mru"));
        assert_eq!(nearest("belady", ["lru", "mru"]), None);
    }
}
