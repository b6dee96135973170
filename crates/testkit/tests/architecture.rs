//! Who may depend on whom, read off `cargo metadata`: the table of ARCHITECTURE.md.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// What each package may use of ours. A package that is missing here is an error: a new crate is
/// given its place when it is made.
const MAY_USE: &[(&str, &[&str])] = &[
    ("foretell-policy", &[]),
    ("foretell-device", &[]),
    // How a file that somebody named is written.
    ("foretell-output", &[]),
    ("foretell-recording", &["foretell-output"]),
    ("foretell-trace", &["foretell-output", "foretell-recording"]),
    // Never the policy or the simulator, so that their agreement means something.
    ("foretell-analytic", &["foretell-device"]),
    // Makes the requests that the model's calibration asks for.
    ("foretell-probe", &["foretell-analytic"]),
    // The translator of C programs: what it makes has a runtime of its own, in C.
    ("foretell-slicer", &[]),
    ("foretell-slowdisk", &[]),
    // What it names of the policy: the policies of pools. That crate brings no others with it.
    ("foretell-protocol", &["foretell-policy"]),
    // The protocol alone: what a program links against is small.
    ("foretell-client", &["foretell-protocol"]),
    ("foretell-capi", &["foretell-client"]),
    ("foretell-python", &["foretell-client"]),
    ("foretell-sim", &["foretell-device", "foretell-policy", "foretell-trace"]),
    ("foretell-pagecache", &["foretell-output", "foretell-policy"]),
    // What a policy was told, logged and told again: no plane is needed for that.
    ("foretell-replay", &["foretell-policy"]),
    ("foretelld", &["foretell-pagecache", "foretell-protocol"]),
    ("foretell", ALL_LIBRARIES),
    ("foretell-benchmarks", ALL_LIBRARIES),
    ("foretell-testkit", &["foretell-policy"]),
];

const ALL_LIBRARIES: &[&str] = &[
    "foretell-analytic",
    "foretell-device",
    "foretell-output",
    "foretell-pagecache",
    "foretell-policy",
    "foretell-probe",
    "foretell-protocol",
    "foretell-recording",
    "foretell-replay",
    "foretell-sim",
    "foretell-slicer",
    "foretell-slowdisk",
    "foretell-trace",
    "foretelld",
];

/// One package of the workspace: the packages of ours that it is built with, and those that only its
/// tests are built with.
struct Uses {
    built_with: Vec<String>,
    tested_with: Vec<String>,
}

fn workspace() -> BTreeMap<String, Uses> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let names: Vec<String> = packages.iter().map(|p| text(&p["name"])).collect();
    packages
        .iter()
        .map(|package| {
            let ours = |only_tests: bool| {
                let dependencies = package["dependencies"].as_array().unwrap().iter();
                dependencies
                    .filter(|d| (d["kind"].as_str() == Some("dev")) == only_tests)
                    .map(|d| text(&d["name"]))
                    .filter(|name| names.contains(name))
                    .collect()
            };
            (text(&package["name"]), Uses { built_with: ours(false), tested_with: ours(true) })
        })
        .collect()
}

#[test]
fn dependencies_follow_the_table() {
    for (package, uses) in workspace() {
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == package) else {
            panic!("{package} has no place in the architecture: add it to MAY_USE and to ARCHITECTURE.md");
        };
        for used in &uses.built_with {
            assert!(allowed.contains(&used.as_str()), "{package} must not depend on {used}");
        }
    }
}

#[test]
fn the_policy_needs_nothing_of_ours() {
    assert_eq!(workspace()["foretell-policy"].built_with, Vec::<String>::new());
}

#[test]
fn no_plane_knows_another() {
    let planes = ["foretell-sim", "foretell-pagecache"];
    let packages = workspace();
    for plane in planes {
        let uses = &packages[plane];
        for used in uses.built_with.iter().chain(&uses.tested_with) {
            assert!(!planes.contains(&used.as_str()), "the plane {plane} must not know {used}");
        }
    }
}

#[test]
fn the_testkit_is_for_tests() {
    for (package, uses) in workspace() {
        assert!(
            !uses.built_with.contains(&"foretell-testkit".to_owned()),
            "{package} is built with the testkit; it belongs into [dev-dependencies]"
        );
    }
}
