//! The ways in which the command is put before a job.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Ended, FORETELL, NOWHERE, Tree};

/// A tree of its own, and a job of which a night is known.
pub struct Ways {
    pub tree: Tree,
}

impl Ways {
    pub fn new() -> Ways {
        let ways = Ways { tree: Tree::new(&[("data", 100_000)]) };
        let learnt = ways.command("watch", &["cat", &ways.text("data")]).stdout(Stdio::null()).status();
        assert!(learnt.unwrap().success());
        ways
    }

    /// A file of the tree, as a word.
    pub fn text(&self, name: &str) -> String {
        self.tree.file(name).display().to_string()
    }

    /// The job's words, with the command before them in one of the ways; none in the way "plain".
    pub fn words(&self, way: &str, job: &[&str]) -> Vec<String> {
        let (state, fresh) = (self.text("state"), self.text("fresh"));
        let (rule, record) = (self.tree.rule("mru"), self.text("record"));
        let words: &[&str] = match way {
            "plain" => &[],
            "run" => &[FORETELL, "run", "--quiet", "--"],
            "record" => &[FORETELL, "run", "--quiet", "--record", &record, "--"],
            "rule" => &[FORETELL, "run", "--quiet", "--no-service", "--budget", "1M", "--rule", &rule, "--"],
            "first" => &[FORETELL, "learn", "--quiet", "--name", "job", "--state", &fresh, "--"],
            how => &[FORETELL, "learn", "--quiet", "--name", "job", "--state", &state, "--as", how, "--"],
        };
        if way == "first" {
            let _ = std::fs::remove_dir_all(&fresh);
        }
        words.iter().chain(job).map(|word| (*word).to_owned()).collect()
    }

    /// The same as a command, without anything to read.
    pub fn command(&self, way: &str, job: &[&str]) -> Command {
        let words = self.words(way, job);
        let mut command = Command::new(&words[0]);
        self.alone(command.args(&words[1..]).stdin(Stdio::null()));
        command
    }

    /// What a shell does with `"$@"`, which is the job with the command before it.
    pub fn shell(&self, way: &str, script: &str, job: &[&str]) -> Ended {
        self.shell_by(Command::new("bash"), way, script, job)
    }

    /// The same where somebody else starts the shell, whose name is not said.
    pub fn shell_by(&self, mut starter: Command, way: &str, script: &str, job: &[&str]) -> Ended {
        starter.args(["-c", script, "bash"]).args(self.words(way, job));
        self.alone(&mut starter).stdin(Stdio::null()).output().unwrap().into()
    }

    /// No other foretell of this machine's has a part in it.
    pub fn alone<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("FORETELL_SOCKET", NOWHERE).env("FORETELL_HOSTS", self.text("hosts"))
    }

    /// A program of `tests/programs`. `None`, with a word, where there is no C compiler.
    pub fn compiled(&self, program: &str, test: &str) -> Option<String> {
        let source: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/programs", program].iter().collect();
        let made = self.text(program);
        let compiled = Command::new("cc").args(["-O1", "-o", &made]).arg(source.with_extension("c")).status();
        if !compiled.is_ok_and(|status| status.success()) {
            println!("skipped: {test}: there is no C compiler");
            return None;
        }
        Some(made)
    }
}
