//! `foretell run --horizon auto --batch auto`.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use harness::{Tree, can_control, foretell};

#[test]
fn what_auto_means_is_printed() {
    let print =
        |arguments: &[&str]| foretell([&["run", "--print-config", "--budget", "64M"], arguments].concat());
    let ended = print(&["--rule", "/tmp/**=mru", "--horizon", "auto", "--batch", "auto", "--device", "nvme"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("# horizon 64 and batch 37 by the model of nvme"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("horizon = 64\n") && ended.stdout.contains("batch = 37\n"),
        "{}",
        ended.stdout
    );

    let directory = tempfile::tempdir().unwrap();
    let shown = foretell(["device", "show", "disk7200"]).stdout;
    std::fs::write(directory.path().join("mine.toml"), shown).unwrap();
    let config = directory.path().join("run.toml");
    std::fs::write(&config, "horizon = \"auto\"\ndevice = \"mine.toml\"\nrules = [\"data/**=lru\"]\n")
        .unwrap();
    let ended = print(&["--config", config.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("# horizon ") && ended.stdout.contains("disk7200"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\nbatch = 512\n"), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_chosen_is_refused() {
    let refused = |arguments: &[&str], says: &str| {
        let ended = foretell([&["run", "--print-config"], arguments].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    };
    refused(&["--horizon", "automatic"], "neither a number nor 'auto'");
    refused(&["--batch", "-1"], "--batch");
    refused(&["--horizon", "auto", "--device", "nvmee"], "did you mean \"nvme\"?");
    refused(&["--horizon", "auto", "--device", "/dev/zero"], "no device file");
    refused(&["--horizon", "8", "--device", "nvme"], "a device is only for horizon or batch 'auto'");
    // Half of it is one block: nothing is left to fetch ahead.
    refused(&["--horizon", "auto", "--device", "nvme", "--budget", "8K"], "memory");
}

#[test]
fn the_report_says_what_was_chosen() {
    if !can_control("the_report_says_what_was_chosen") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10)]);
    let file = tree.file("a");
    let file = file.to_str().unwrap();
    let rule = format!("{file}=lru");
    let ended = foretell([
        "run",
        "--budget",
        "4M",
        "--horizon",
        "auto",
        "--batch",
        "auto",
        "--device",
        "nvme",
        "--rule",
        &rule,
        "--",
        "cat",
        file,
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("chosen: horizon 64 and batch 37 by the model of nvme"),
        "{}",
        ended.stderr
    );
}
