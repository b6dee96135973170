//! What `foretell run` would be told, told to the simulator: configuration file, rules, hints.
//!
//! The same parser and the same resolution as a run's ([`crate::config`]). Globs are matched against the
//! names that the trace gives its files; a name without a leading `/` is taken to lie in the working
//! directory, or where the configuration file is. What a simulated machine has no use for (real-time
//! priority, threads, revoking by process name) is read and passed over; `[[process]]` tables are refused,
//! because traces do not name executables.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use foretell_policy::{Block, FileId};
use foretell_sim::{Control, PolicyName, Survey};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::config::{Effective, File, Flags, Surroundings, resolve};
use crate::hints::line;
use crate::hints::lines::{Line, Lines, unpack};
use crate::rule::Rule;
use crate::terminal::with_causes;

/// Blocks that a list may name; as many as references that the policies keep positions of.
const MAX_LIST_BLOCKS: usize = 1 << 28;

/// What was asked for, resolved as far as that is possible without the trace.
#[derive(Debug)]
pub struct Deployed {
    /// As for a run.
    pub effective: Effective,
    /// What the file itself says, for what a simulation has defaults of its own for.
    pub file: File,
    rules: Vec<Rule>,
    hints: Option<PathBuf>,
    bases: Vec<PathBuf>,
}

impl Deployed {
    /// Reads `--config` and the flags that go with it.
    ///
    /// # Errors
    /// As a run's configuration; `[[process]]` tables.
    pub fn read(config: Option<&Path>, flags: &Flags) -> Result<Deployed> {
        let working_directory = std::env::current_dir().context("the working directory")?;
        let (file, file_directory) = match config {
            None => (File::default(), working_directory.clone()),
            Some(path) => {
                let absolute = working_directory.join(path);
                (File::read(path)?, absolute.parent().unwrap_or(&working_directory).to_owned())
            }
        };
        if let Some(process) = file.process.first() {
            bail!(
                "[[process]] '{}': traces do not name executables; put its rules at the top of a file of their own",
                process.name
            );
        }
        let around = Surroundings {
            working_directory: &working_directory,
            file_directory: &file_directory,
            // A budget is of this machine, the cache is of a simulated one: nothing is too much here.
            memory_bytes: u64::MAX,
        };
        let effective = resolve(flags, &file, around).map_err(|e| match config {
            Some(path) => anyhow!("{} (flags and {})", with_causes(&e), path.display()),
            None => e,
        })?;
        let (rules, hints) = match effective.controlled.first() {
            Some(controlled) => (controlled.rules.clone(), controlled.hints.clone()),
            None => (Vec::new(), None),
        };
        ensure!(
            hints.as_deref() != Some(Path::new("-")),
            "--hints -: a list is read once for each sweep; give it as a file"
        );
        let mut bases = vec![working_directory.clone(), file_directory.clone()];
        bases.dedup();
        Ok(Deployed { effective, file, rules, hints, bases })
    }

    /// The policy that a run with this configuration would have, by its simulator's name.
    #[must_use]
    pub fn policy(&self) -> PolicyName {
        self.effective.prefetch.into()
    }

    /// Is there a rule or a list?
    #[must_use]
    pub fn controls(&self) -> bool {
        !self.rules.is_empty() || self.hints.is_some()
    }

    /// Rules and list for the files of a trace; `None` if there is neither. What is worth knowing is appended
    /// to `notes`.
    ///
    /// # Errors
    /// The list cannot be read, or neither a rule nor a hint names a file of the trace.
    pub fn control(
        &self,
        survey: &Survey,
        block_bytes: u32,
        notes: &mut Vec<String>,
    ) -> Result<Option<Control>> {
        if !self.controls() {
            return Ok(None);
        }
        let mut control = Control::default();
        let globs = compile(&self.rules)?;
        for name in &survey.file_names {
            let matched = self.places(name).find_map(|path| globs.matches(path).into_iter().min());
            control.files.push(matched.map(|rule| self.rules[rule].priority));
        }
        control.files.resize(survey.file_blocks.len(), None);
        for rule in &self.rules {
            if !control.levels.contains(&(rule.priority, rule.policy)) {
                control.levels.push((rule.priority, rule.policy));
            }
        }
        let by_rule = control.files.iter().flatten().count();
        if !self.rules.is_empty() && by_rule == 0 {
            let known = survey.file_names.first().map_or("", String::as_str);
            bail!("no rule matches a file of the trace; its files are called like '{known}'");
        }
        if let Some(path) = &self.hints {
            let list = self.list(path, survey, block_bytes, notes)?;
            for block in &list {
                control.files[block.file.0 as usize].get_or_insert(0);
            }
            control.list = Some(list);
        }
        let managed = control.files.iter().flatten().count();
        if managed < control.files.len() {
            notes.push(format!(
                "{managed} of {} files are managed; the others are left to the kernel's LRU",
                control.files.len()
            ));
        }
        Ok(Some(control))
    }

    /// Where a file of that name may lie.
    fn places(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.bases.iter().map(move |base| base.join(name))
    }

    fn list(
        &self,
        path: &Path,
        survey: &Survey,
        block_bytes: u32,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Block>> {
        let shown = path.display();
        let cannot = |e: std::io::Error| anyhow!("--hints {shown}: {e}");
        let (_, stream) = unpack(fs::File::open(path).map_err(cannot)?).map_err(cannot)?;
        let mut files: HashMap<PathBuf, u32> = HashMap::new();
        for (file, name) in survey.file_names.iter().enumerate() {
            for place in self.places(name) {
                files.entry(place).or_insert(file as u32);
            }
        }
        let mut lines = Lines::new(stream);
        let (mut list, mut unknown, mut first_unknown) = (Vec::new(), 0u64, None);
        loop {
            let number = lines.number() + 1;
            let text = match lines.next_line().map_err(cannot)? {
                None => break,
                Some(Line::TooLong) => bail!("--hints {shown}:{number}: the line is too long"),
                Some(Line::Whole(text) | Line::Unended(text)) => text,
            };
            let hint = line::parse(text).map_err(|e| anyhow!("--hints {shown}:{number}: {e}"))?;
            let Some(hint) = hint else { continue };
            let named = Path::new(std::ffi::OsStr::from_bytes(&hint.path));
            let Some(&file) = self.bases.iter().find_map(|base| files.get(&base.join(named))) else {
                unknown += 1;
                first_unknown.get_or_insert((number, named.to_owned()));
                continue;
            };
            let blocks = u64::from(survey.file_blocks[file as usize]);
            let block = u64::from(block_bytes);
            let (first, end) = match hint.range {
                None => (0, blocks),
                Some(range) => (range.offset / block, range.end().div_ceil(block).min(blocks)),
            };
            ensure!(
                list.len() as u64 + end.saturating_sub(first) <= MAX_LIST_BLOCKS as u64,
                "--hints {shown}:{number}: more than {MAX_LIST_BLOCKS} blocks are named; give a shorter list"
            );
            list.extend((first..end).map(|index| Block::new(FileId(file), index as u32)));
        }
        if let Some((number, named)) = first_unknown {
            notes.push(format!(
                "{shown}: {unknown} hints name files that the trace has not (the first: '{}', line {number})",
                named.display()
            ));
        }
        ensure!(!list.is_empty(), "--hints {shown}: no hint names a block of the trace");
        Ok(list)
    }
}

fn compile(rules: &[Rule]) -> Result<GlobSet> {
    let mut builder = GlobSetBuilder::new();
    for rule in rules {
        let glob = GlobBuilder::new(&rule.glob).literal_separator(true).build();
        builder.add(glob.map_err(|e| anyhow!("rule '{}': {}", rule.glob, e.kind()))?);
    }
    builder.build().map_err(|e| anyhow!("rules: {}", e.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_policy::PoolPolicy;

    fn survey(names: &[&str]) -> Survey {
        Survey {
            file_names: names.iter().map(ToString::to_string).collect(),
            file_blocks: vec![4; names.len()],
            ..Survey::default()
        }
    }

    fn deployed(rules: &[&str], hints: Option<PathBuf>) -> Result<Deployed> {
        let rules = rules.iter().map(ToString::to_string).collect();
        Deployed::read(None, &Flags { rules, hints, ..Flags::default() })
    }

    #[test]
    fn rules_are_matched_against_the_names_of_the_trace() {
        let rules = deployed(&["/data/*.idx=lru,priority=1", "/data/**=mru", "here/*=mru"], None).unwrap();
        let survey = survey(&["/data/a.idx", "/data/deep/b", "/lib/c.so", "here/d"]);
        let mut notes = Vec::new();
        let control = rules.control(&survey, 8192, &mut notes).unwrap().unwrap();
        assert_eq!(control.files, [Some(1), Some(0), None, Some(0)]);
        assert_eq!(control.levels, [(1, PoolPolicy::Lru), (0, PoolPolicy::Mru)]);
        assert_eq!(notes, ["3 of 4 files are managed; the others are left to the kernel's LRU"]);
        let nothing = deployed(&["/other/**=mru"], None).unwrap().control(&survey, 8192, &mut notes);
        assert!(nothing.unwrap_err().to_string().contains("called like '/data/a.idx'"));
        assert!(deployed(&[], None).unwrap().control(&survey, 8192, &mut notes).unwrap().is_none());
    }

    #[test]
    fn hints_become_blocks_of_the_trace() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        fs::write(&path, "/a 8000 400\n# no more\n/b\n/gone 0 1\n/a 0 99999999\n").unwrap();
        let hints = deployed(&[], Some(path.clone())).unwrap();
        let mut notes = Vec::new();
        let control = hints.control(&survey(&["/a", "/b", "/c"]), 8192, &mut notes).unwrap().unwrap();
        let named: Vec<(u32, u32)> = control.list.iter().flatten().map(|b| (b.file.0, b.index)).collect();
        let all = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (0, 0), (0, 1), (0, 2), (0, 3)];
        assert_eq!(named, all);
        assert_eq!(control.files, [Some(0), Some(0), None]);
        assert!(notes[0].contains("1 hints name files that the trace has not (the first: '/gone', line 4)"));
        fs::write(&path, "/a 1\n").unwrap();
        let error = hints.control(&survey(&["/a"]), 8192, &mut notes).unwrap_err().to_string();
        assert!(error.contains("list:1: neither 'path' nor"), "{error}");
    }
}
