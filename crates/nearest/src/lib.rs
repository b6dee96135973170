//! The nearest of a set of names, for messages about mistyped ones.

/// Letters of a mistyped name that are looked at.
const LONGEST_NAME: usize = 64;

/// The name of `names` that a typing error may have turned into `typed`: the one with the smallest edit
/// distance, if that is at most a third of the longer name's length (at least 1). Ties go to the first.
#[must_use]
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What is longer than any name is cut first, so a huge argument costs nothing.
    let typed: String = typed.to_ascii_lowercase().chars().take(LONGEST_NAME).collect();
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(&typed, name), name))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("mur", ["lru", "mru"]), Some("mru"));
        assert_eq!(nearest("MRU", ["lru", "mru"]), Some("mru"));
        assert_eq!(nearest("belady", ["lru", "mru"]), None);
        assert_eq!(nearest("xd", ["synth", "xds", "glimpse"]), Some("xds"));
        assert_eq!(nearest(&"x".repeat(1 << 20), ["xds"]), None, "what is huge is cut first");
    }
}
