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
    refused("nvmee", "random,bytes=1M", "did you mean \"nvme\"?");
    refused("/no/such/device.toml", "random,bytes=1M", "no device \"/no/such/device.toml\"");
}
