//! Nights of a job under `foretell learn`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Ended, FORETELL, Tree, foretell};

/// A job's directory, its files and its knowledge.
pub struct Stage {
    pub tree: Tree,
}

impl Stage {
    /// Files to read, 3 MiB in all.
    pub fn new() -> Stage {
        Stage { tree: Tree::new(&[("a.dat", 1 << 20), ("b.dat", 1 << 20), ("c.dat", 1 << 20)]) }
    }

    pub fn state(&self) -> PathBuf {
        self.tree.file("state")
    }

    /// A night of the job `sh -c script`, with the cache cold.
    pub fn night(&self, options: &[&str], script: &str) -> Ended {
        self.tree.drop_cache();
        let state = self.state();
        let mut arguments = vec!["learn", "--name", "job", "--state", state.to_str().unwrap()];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", script]);
        within_limits(&arguments)
    }

    pub fn reads(&self) -> String {
        let directory = self.tree.path();
        format!(
            "cd '{}' && for i in 1 2; do cat a.dat; cat b.dat; cat c.dat; done | cksum",
            directory.display()
        )
    }

    pub fn show(&self) -> Vec<Value> {
        let state = self.state();
        let shown = foretell(["learn", "--state", state.to_str().unwrap(), "--show", "job", "--json"]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        serde_json::from_str(&shown.stdout).unwrap()
    }

    pub fn recording(&self) -> PathBuf {
        self.state().join("jobs/job/recording")
    }
}

/// Runs the command, for a minute and a half at most: a night that never ends is a failure and not a hang.
fn within_limits(arguments: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "90", FORETELL]).args(arguments);
    let ended = Ended::from(command.stdin(Stdio::null()).output().unwrap());
    assert_ne!(ended.code, Some(124), "it did not end: {}", ended.stderr);
    ended
}
