//! The paper's two examples (figures 2 and 3 of Yang, Mitra and Chiueh), translated as they always were.
//!
//! After a change that is meant: `foretell slice tests/golden/figure2.c -o tests/golden/figure2.foretell.c`.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use foretell_slicer::{Input, Options, Outcome, Translation, translate};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The translation of an example, or nothing where clang is missing.
fn translated(name: &str, test: &str) -> Option<Translation> {
    if Command::new("clang").arg("--version").output().is_err() {
        println!("skipped: {test}: clang is not installed");
        return None;
    }
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime");
    let flags = vec![format!("-I{}", runtime.display())];
    let input = Input { path: folder().join(name), flags, folder: None, preprocessed: None, otherwise: None };
    Some(translate(&[input], &Options::default()).unwrap())
}

fn compare(name: &str, test: &str) {
    let Some(translation) = translated(&format!("{name}.c"), test) else { return };
    let wanted = std::fs::read_to_string(folder().join(format!("{name}.foretell.c"))).unwrap();
    assert!(translation.files[0] == wanted, "{name}.foretell.c is now:\n{}", translation.files[0]);
}

#[test]
fn figure_2_reads_backwards() {
    compare("figure2", "figure_2_reads_backwards");
}

#[test]
fn figure_3_reads_its_configuration() {
    compare("figure3", "figure_3_reads_its_configuration");
}

#[test]
fn the_report_says_what_became_of_each_file() {
    let Some(translation) = translated("figure3.c", "the_report_says_what_became_of_each_file") else {
        return;
    };
    let outcomes: Vec<(&str, &Outcome)> =
        translation.report.sites.iter().map(|s| (s.path.as_str(), &s.outcome)).collect();
    let wanted =
        [("\"mydata.dat\"", &Outcome::Prefetched { number: 1 }), ("\"config.dat\"", &Outcome::ReadBySlice)];
    assert_eq!(outcomes, wanted);
}

#[test]
fn why_gives_the_chain_to_the_access() {
    let test = "why_gives_the_chain_to_the_access";
    if translated("figure3.c", test).is_none() {
        return;
    }
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime");
    let flags = vec![format!("-I{}", runtime.display())];
    let input =
        Input { path: folder().join("figure3.c"), flags, folder: None, preprocessed: None, otherwise: None };
    let asked = |what: &str| {
        let options = Options { why: Some(what.to_owned()), ..Options::default() };
        translate(std::slice::from_ref(&input), &options).unwrap().why
    };
    let index = asked("17").join("\n");
    assert!(
        index.contains("fscanf(config_fp, \"%d\", &index)") && index.contains("gives `index`"),
        "{index}"
    );
    assert!(asked("21").join("").contains("nothing of it is in the slice"), "data + 10 is computation");
}
