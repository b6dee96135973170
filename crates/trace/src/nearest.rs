//! The name that somebody probably meant.

/// The candidate with the fewest edits from `given`, if they are at most a third of its length (at least
/// one).
pub(crate) fn nearest<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given: String = given.chars().take(64).collect();
    candidates
        .map(|candidate| (strsim::osa_distance(&given, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.len() / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
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
    }
}
