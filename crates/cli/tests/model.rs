//! `foretell model` as a user sees it.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use harness::foretell;

#[test]
fn the_published_rows_come_as_json() {
    let ended = foretell(["model", "--reproduce", "shriver99", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let rows: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 36);
    assert_eq!(rows[3]["paper_ms"], 17.24);
}

#[test]
fn a_prediction_says_what_limits_it() {
    let workload = "sequential,bytes=64M,think_us=200";
    let ended = foretell(["model", "predict", "--device", "nvme", "--workload", workload]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("limited by the computation: reads are hidden behind it"),
        "{}",
        ended.stdout
    );
}

#[test]
fn advice_names_setting_gain_and_condition() {
    let ended =
        foretell(["model", "advise", "--device", "nvme", "--workload", "random,bytes=64M,request=4K"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for says in ["queue_depth", "horizon", "times as fast", "if the order is disclosed"] {
        assert!(ended.stdout.contains(says), "{says}: {}", ended.stdout);
    }
    let nothing = foretell(["model", "advise", "--device", "hp97560", "--workload", "sequential,bytes=64M"]);
    assert!(nothing.stdout.contains("nothing to set"), "{}", nothing.stdout);
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let refused = |device: &str, workload: &str, says: &str| {
        let ended = foretell(["model", "predict", "--device", device, "--workload", workload]);
        assert_eq!(ended.code, Some(2), "{workload}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{workload}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("foretell: ") && ended.stderr.contains(says), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    };
    refused("nvme", "random,bytes=1M,think_us=NaN", "think_us is NaN; give 0 to 3.6e9 us");
    refused("nvme", "random,bytes=1M,think_us=-1", "think_us is -1");
    refused(
        "nvme",
        "hinted,bytes=1M,horizon=100,memory=64K",
        "the blocks within the horizon need 819200 bytes",
    );
    refused("hp97560", "sequential,bytes=2G", "the device holds 1355304960");
    refused("nvme", "random,bytes=1M,think_us=1e308", "think_us is 1e308; give");
    refused("nvmee", "random,bytes=1M", "did you mean \"nvme\"?");
    refused("/no/such/device.toml", "random,bytes=1M", "no device \"/no/such/device.toml\"");
}

/// What `foretell model calibrate` writes, in small.
const MEASURED: &str = r#"name = "mine"
description = "a device"
source = "measured"

[measured]
capacity_bytes = 1073741824
outstanding = 32
positioning_ms = 5.0
busy_positioning_ms = 4.0
service = [
    { bytes = 4096, alone_ms = 0.1, busy_ms = 0.05 },
    { bytes = 1048576, alone_ms = 4.0, busy_ms = 3.0 },
]
"#;

#[test]
fn a_measured_device_with_numbers_that_cannot_be_is_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    let file = file.to_str().unwrap();
    let predict = |text: &str| {
        std::fs::write(file, text).unwrap();
        foretell(["model", "predict", "--device", file, "--workload", "random,bytes=1M"])
    };
    let sound = predict(MEASURED);
    assert_eq!(sound.code, Some(0), "{}", sound.stderr);
    for number in ["positioning_ms = 5.0", "busy_positioning_ms = 4.0", "alone_ms = 0.1", "busy_ms = 3.0"] {
        let (key, _) = number.split_once(' ').unwrap();
        for wrong in ["nan", "-nan", "inf", "-1.0"] {
            let ended = predict(&MEASURED.replace(number, &format!("{key} = {wrong}")));
            assert_eq!(ended.code, Some(2), "{key} = {wrong}: {} {}", ended.stdout, ended.stderr);
            assert_eq!(ended.stderr.lines().count(), 1, "{key} = {wrong}: {}", ended.stderr);
            assert!(ended.stderr.contains(file) && ended.stderr.contains(key), "{}", ended.stderr);
            assert_eq!(ended.stdout, "");
        }
    }
    for (number, wrong) in [("outstanding = 32", "outstanding = 0"), ("= 1073741824", "= -1")] {
        let ended = predict(&MEASURED.replace(number, wrong));
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{wrong}: {}", ended.stderr);
    }
}
