//! `foretell doctor`: what works here.

use std::fmt::Write;

use anyhow::Result;
use foretell_pagecache::doctor::{Mechanism, examine, missing_for_run};
use serde::Serialize;

use crate::terminal::say;

/// Say which of the kernel's mechanisms work here, which are used, and what to do about the others. Each is
/// tried, and taken back. Exit code 0 when 'foretell run' can work, 1 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell doctor\n  \
    foretell doctor --json")]
pub struct Args {
    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Findings {
    can_run: bool,
    missing: Option<String>,
    mechanisms: Vec<Mechanism>,
}

/// Does what the arguments say.
pub fn execute(args: &Args) -> Result<u8> {
    let missing = missing_for_run();
    let findings = Findings { can_run: missing.is_none(), missing, mechanisms: examine() };
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&findings)?));
    } else {
        say(&table(&findings));
    }
    Ok(u8::from(!findings.can_run))
}

/// Mechanism, works, used, what was seen; below it what to do.
fn table(findings: &Findings) -> String {
    let names = findings.mechanisms.iter().map(|m| m.name.chars().count());
    let width = names.chain(["mechanism".len()]).max().unwrap_or(0);
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    let mut out = format!("{:<width$}  works  used  what was seen\n", "mechanism");
    for m in &findings.mechanisms {
        let _ = writeln!(out, "{:<width$}  {:<5}  {:<4}  {}", m.name, yes(m.works), yes(m.used), m.detail);
        if let Some(remedy) = &m.remedy {
            let _ = writeln!(out, "{:width$}               to do: {remedy}", "");
        }
    }
    match &findings.missing {
        None => out.push_str("\n'foretell run' can work here.\n"),
        Some(missing) => {
            let _ = writeln!(out, "\n'foretell run' cannot work here: {missing}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up() {
        let mechanism = |name: &str, works, remedy: Option<&str>| Mechanism {
            name: name.into(),
            works,
            detail: "seen".into(),
            used: works,
            remedy: remedy.map(Into::into),
        };
        let mechanisms = vec![mechanism("BTF", true, None), mechanism("SCHED_FIFO", false, Some("be root"))];
        let findings = Findings { can_run: false, missing: Some("CAP_BPF".into()), mechanisms };
        assert_eq!(
            table(&findings),
            "\
mechanism   works  used  what was seen
BTF         yes    yes   seen
SCHED_FIFO  no     no    seen
                         to do: be root

'foretell run' cannot work here: CAP_BPF
"
        );
    }
}
