//! Flags and file, resolved into what will be done.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use foretell_analytic::advise::ForHints;
use foretell_nearest::suggestion;
use foretell_pagecache::{Options, default_batch};
use foretell_policy::{Allocation, DEFAULT_BLOCK_BYTES, Order, Prefetch, Revocation};

use super::chosen::{choose, volume_of};
use super::file::{File, ProcessTable, RevocationTable, RuleEntry};
use super::names::{ALLOCATIONS, ORDERS, name_of, prefetches, value_of};
use super::number::Number;
use crate::rule::{self, Rule};
use crate::size::Size;

/// The budget when none is given: half of the memory leaves room for the programs and for the rest of
/// the page cache.
const DEFAULT_BUDGET: Size = Size::Percent(50.0);
/// The largest batch: the plane's queue of prefetches holds no more.
const MAX_BATCH: u32 = 4096;
/// Threads that prefetch at most, unless said otherwise: started as they are needed.
const DEFAULT_PREFETCH_THREADS: u32 = 32;
/// The most processes with rules of their own.
const MAX_PROCESSES: usize = 256;

/// The flags that have a say in the configuration, as they were typed.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--budget`
    pub budget: Option<String>,
    /// `--rule`, in order
    pub rules: Vec<String>,
    /// `--hints`
    pub hints: Option<PathBuf>,
    /// `--prefetch`
    pub prefetch: Option<String>,
    /// `--batch`
    pub batch: Option<Number>,
    /// `--horizon`
    pub horizon: Option<Number>,
    /// `--device`
    pub device: Option<PathBuf>,
    /// `--order`
    pub order: Option<String>,
    /// `--allocation`
    pub allocation: Option<String>,
}

/// Processes that are controlled together: a manager of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controlled {
    /// The executable's name; `None` for all processes that no other one names.
    pub process: Option<String>,
    /// Its rules, absolute; the first that matches decides.
    pub rules: Vec<Rule>,
    /// Its hint file, absolute, or `-`.
    pub hints: Option<PathBuf>,
}

/// What will be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// The budget as it was written.
    pub budget: Size,
    /// The budget in bytes.
    pub budget_bytes: u64,
    /// Size of a block.
    pub block_bytes: u32,
    /// Prefetching algorithm.
    pub prefetch: Prefetch,
    /// Prefetches issued together.
    pub batch: u32,
    /// References ahead that may be prefetched.
    pub horizon: Option<u32>,
    /// What of these the model has chosen, and by which device.
    pub chosen: Option<String>,
    /// Order of the fetches of one batch.
    pub order: Order,
    /// Allocation policy.
    pub allocation: Allocation,
    /// Threads that prefetch.
    pub prefetch_threads: u32,
    /// Steer at real-time priority where allowed.
    pub realtime: bool,
    /// When to take control from a manager that is often wrong.
    pub revocation: Option<Revocation>,
    /// Who is controlled; the one for all other processes, if there is one, comes first.
    pub controlled: Vec<Controlled>,
}

/// Where relative paths begin, and how much memory there is.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The working directory: where the paths and globs of the flags begin.
    pub working_directory: &'a Path,
    /// The configuration file's directory: where those of the file begin.
    pub file_directory: &'a Path,
    /// Memory that may be used, in bytes.
    pub memory_bytes: u64,
}

/// Turns flags and file into what will be done, or says what is wrong with them in one line.
pub fn resolve(flags: &Flags, file: &File, around: Surroundings<'_>) -> Result<Effective> {
    if file.socket.is_some() || file.limits.is_some() || file.buffers.is_some() {
        bail!("'socket', [limits] and [buffers] are for 'foretell daemon', not for a run");
    }
    let controlled = controlled(flags, file, around)?;
    let any_hints = controlled.iter().any(|c| c.hints.is_some());
    let chosen = flags.prefetch.as_deref().or(file.prefetch.as_deref());
    let prefetch = match chosen {
        Some(name) => named("prefetch", &prefetches(), name)?,
        None if any_hints => Prefetch::FOR_LISTS,
        None => Prefetch::None,
    };
    let order = flags.order.as_deref().or(file.order.as_deref());
    let allocation = flags.allocation.as_deref().or(file.allocation.as_deref());
    let block_bytes = block(file.block.as_deref())?;
    let budget = match flags.budget.as_deref().or(file.budget.as_deref()) {
        Some(text) => Size::parse(text).map_err(|e| anyhow!("budget: {e}"))?,
        None => DEFAULT_BUDGET,
    };
    let asked = (flags.batch.or(file.batch), flags.horizon.or(file.horizon));
    let device = match (&flags.device, &file.device) {
        (Some(device), _) => Some(device.clone()),
        (None, Some(device)) => Some(in_directory(device, around.file_directory)),
        (None, None) => None,
    };
    let auto = [asked.0, asked.1].contains(&Some(Number::AUTO));
    if device.is_some() && !auto {
        bail!("a device is only for horizon or batch 'auto'; leave it out, or give --horizon auto");
    }
    let chosen = if auto {
        let volume = volume_of(&controlled, around.working_directory);
        let most_bytes = budget.bytes(around.memory_bytes).min(around.memory_bytes);
        Some(choose(device.as_deref(), &volume, block_bytes, most_bytes)?)
    } else {
        None
    };
    let numbers = chosen.as_ref().map_or(ForHints { horizon: 1, batch: 1 }, |c| c.numbers);
    let usual = || default_batch(budget.bytes(around.memory_bytes), block_bytes);
    let batch = asked.0.map_or_else(usual, |n| n.or_chosen(numbers.batch.min(MAX_BATCH)));
    let batch = in_range("batch", batch, 1, MAX_BATCH)?;
    let horizon = asked.1.map(|n| n.or_chosen(numbers.horizon));
    if horizon == Some(0) {
        bail!("a horizon of 0 forbids every prefetch; leave it out for no limit, or use prefetch 'none'");
    }
    let budget_bytes = check_budget(budget, batch, block_bytes, around.memory_bytes)?;
    Ok(Effective {
        budget,
        budget_bytes,
        block_bytes,
        prefetch,
        batch,
        horizon,
        chosen: chosen.map(|c| in_words(asked, numbers, &c.by)),
        order: order.map_or(Ok(Order::Ascending), |name| named("order", ORDERS, name))?,
        allocation: allocation
            .map_or(Ok(Allocation::LruSp), |name| named("allocation", ALLOCATIONS, name))?,
        prefetch_threads: in_range(
            "prefetch-threads",
            file.prefetch_threads.unwrap_or(DEFAULT_PREFETCH_THREADS),
            1,
            64,
        )?,
        realtime: file.realtime.unwrap_or(true),
        revocation: file.revocation.map(revocation).transpose()?,
        controlled,
    })
}

/// What flags and file say of how to control, but not of whom, as it was written: a flag, or a key of the file.
#[must_use]
pub fn asked_for(flags: &Flags, file: &File) -> Vec<String> {
    // In full, so that a new one is not forgotten here.
    let Flags { budget, rules: _, hints: _, prefetch, batch, horizon, device, order, allocation } = flags;
    let File {
        budget: of_file,
        block,
        prefetch: file_prefetch,
        batch: file_batch,
        horizon: file_horizon,
        device: file_device,
        order: file_order,
        allocation: file_allocation,
        prefetch_threads,
        realtime,
        revocation,
        // Of whom, or for the service only.
        hints: _,
        rules: _,
        socket: _,
        limits: _,
        buffers: _,
        process: _,
    } = file;
    let all = [
        ("budget", budget.is_some(), of_file.is_some()),
        ("block", false, block.is_some()),
        ("prefetch", prefetch.is_some(), file_prefetch.is_some()),
        ("batch", batch.is_some(), file_batch.is_some()),
        ("horizon", horizon.is_some(), file_horizon.is_some()),
        ("device", device.is_some(), file_device.is_some()),
        ("order", order.is_some(), file_order.is_some()),
        ("allocation", allocation.is_some(), file_allocation.is_some()),
        ("prefetch-threads", false, prefetch_threads.is_some()),
        ("realtime", false, realtime.is_some()),
        ("revocation", false, revocation.is_some()),
    ];
    let name = |(name, flag, key)| match (flag, key) {
        (true, _) => Some(format!("--{name}")),
        (false, true) => Some(format!("'{name}' of the configuration file")),
        (false, false) => None,
    };
    all.into_iter().filter_map(name).collect()
}

/// What the model has chosen of what was asked for.
fn in_words((batch, horizon): (Option<Number>, Option<Number>), numbers: ForHints, by: &str) -> String {
    let mut parts = Vec::new();
    if horizon == Some(Number::AUTO) {
        parts.push(format!("horizon {}", numbers.horizon));
    }
    if batch == Some(Number::AUTO) {
        parts.push(format!("batch {}", numbers.batch.min(MAX_BATCH)));
    }
    format!("{} by {by}", parts.join(" and "))
}

/// A device file's path in a configuration file; a name without a directory may be a built-in device.
fn in_directory(device: &Path, directory: &Path) -> PathBuf {
    let here = directory.join(device);
    if here.exists() { here } else { device.to_owned() }
}

fn controlled(flags: &Flags, file: &File, around: Surroundings<'_>) -> Result<Vec<Controlled>> {
    if file.process.len() > MAX_PROCESSES {
        bail!("{} [[process]] tables; use at most {MAX_PROCESSES}", file.process.len());
    }
    let mut rules = Vec::new();
    for text in &flags.rules {
        rules.push(Rule::parse(text)?.absolute(around.working_directory));
    }
    rules.extend(file_rules(&file.rules, around)?);
    rule::check(&rules)?;
    let in_file = |path: &PathBuf| beginning_at(path, around.file_directory);
    let hints = match &flags.hints {
        Some(path) => Some(beginning_at(path, around.working_directory)),
        None => file.hints.as_ref().map(in_file),
    };
    let mut all = Vec::new();
    if !rules.is_empty() || hints.is_some() {
        all.push(Controlled { process: None, rules, hints });
    }
    for ProcessTable { name, hints, rules } in &file.process {
        if name.is_empty() || name.contains('/') {
            bail!("process '{name}': give the executable's name without directories, as in 'cscope'");
        }
        if all.iter().any(|known| known.process.as_deref() == Some(name)) {
            bail!("two [[process]] tables are named '{name}'; put their rules into one");
        }
        let rules = file_rules(rules, around).map_err(|e| anyhow!("process '{name}': {e}"))?;
        rule::check(&rules).map_err(|e| anyhow!("process '{name}': {e}"))?;
        all.push(Controlled { process: Some(name.clone()), rules, hints: hints.as_ref().map(in_file) });
    }
    let from_stdin = all.iter().filter(|c| c.hints.as_deref() == Some(Path::new("-"))).count();
    if from_stdin > 1 {
        bail!("only one list of hints can come from standard input; give the others as files");
    }
    Ok(all)
}

fn file_rules(entries: &[RuleEntry], around: Surroundings<'_>) -> Result<Vec<Rule>> {
    let parse = |entry: &RuleEntry| {
        let rule = match entry {
            RuleEntry::Text(text) => Rule::parse(text)?,
            RuleEntry::Table { glob, policy, priority } => Rule::new(glob, policy, *priority)?,
        };
        Ok(rule.absolute(around.file_directory))
    };
    entries.iter().map(parse).collect()
}

fn beginning_at(path: &Path, base: &Path) -> PathBuf {
    if path == Path::new("-") { path.to_owned() } else { base.join(path) }
}

fn named<T: Copy>(what: &str, table: &[(&'static str, T)], name: &str) -> Result<T> {
    value_of(table, name)
        .ok_or_else(|| anyhow!("unknown {what} '{name}'{}", suggestion(name, table.iter().map(|(n, _)| *n))))
}

fn in_range(what: &str, value: u32, least: u32, most: u32) -> Result<u32> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        bail!("{what} is {value}; it must be from {least} to {most}")
    }
}

fn block(text: Option<&str>) -> Result<u32> {
    let Some(text) = text else { return Ok(DEFAULT_BLOCK_BYTES) };
    match Size::parse(text).map_err(|e| anyhow!("block: {e}"))? {
        Size::Bytes(bytes @ 4096..=0x10_0000) if bytes.is_power_of_two() => Ok(bytes as u32),
        _ => bail!("block is '{text}'; it must be a power of two from 4K to 1M"),
    }
}

fn revocation(table: RevocationTable) -> Result<Revocation> {
    let default = Revocation::default();
    let chosen = Revocation {
        window: table.window.unwrap_or(default.window),
        revoke_above: table.revoke_above.unwrap_or(default.revoke_above),
        reinstate_below: table.reinstate_below.unwrap_or(default.reinstate_below),
    };
    let ordered = 0.0 <= chosen.reinstate_below && chosen.reinstate_below <= chosen.revoke_above;
    if !ordered || chosen.revoke_above > 1.0 || chosen.window == 0 {
        bail!(
            "revocation: the window must be at least 1 and the shares so that \
             0 <= reinstate-below <= revoke-above <= 1"
        );
    }
    Ok(chosen)
}

fn check_budget(budget: Size, batch: u32, block_bytes: u32, memory_bytes: u64) -> Result<u64> {
    let bytes = budget.bytes(memory_bytes);
    let least = u64::from(batch) * u64::from(block_bytes);
    if bytes < least {
        bail!(
            "a budget of {budget} is smaller than one batch ({batch} blocks of {}); \
             give at least {} or a smaller batch",
            Size::Bytes(block_bytes.into()),
            Size::Bytes(least)
        );
    }
    if bytes > memory_bytes {
        bail!(
            "a budget of {budget} is more than the memory that may be used here ({}); give less, or a share as in 50%",
            crate::size::human_bytes(memory_bytes)
        );
    }
    Ok(bytes)
}

impl Effective {
    /// What a plane is opened with.
    pub(crate) fn plane_options(&self) -> Options {
        Options {
            block_bytes: self.block_bytes,
            prefetch: self.prefetch,
            batch: self.batch,
            horizon: self.horizon,
            order: self.order,
            allocation: self.allocation,
            revocation: self.revocation,
            realtime: self.realtime,
            prefetch_threads: self.prefetch_threads,
            ..Options::new(self.budget_bytes)
        }
    }

    /// The configuration as TOML. Read as a file, it gives the same configuration.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // Strings, numbers and tables of them: nothing that TOML cannot hold, except a hint file's name that
        // is not UTF-8.
        let text = toml::to_string(&self.to_file());
        let text = text.unwrap_or_else(|e| format!("# cannot be written as TOML: {e}\n"));
        let comment = self.chosen.as_ref().map(|chosen| format!("# {chosen}\n"));
        comment.unwrap_or_default() + &text
    }

    /// The same as what a file would say.
    pub(crate) fn to_file(&self) -> File {
        let entries =
            |rules: &[Rule]| rules.iter().map(|r| RuleEntry::Text(r.to_string())).collect::<Vec<_>>();
        let others = self.controlled.iter().find(|c| c.process.is_none());
        File {
            budget: Some(self.budget.to_string()),
            block: Some(Size::Bytes(self.block_bytes.into()).to_string()),
            prefetch: Some(self.prefetch.to_string()),
            batch: Some(Number::Is(self.batch)),
            horizon: self.horizon.map(Number::Is),
            device: None,
            order: Some(name_of(ORDERS, &self.order).to_owned()),
            allocation: Some(name_of(ALLOCATIONS, &self.allocation).to_owned()),
            prefetch_threads: Some(self.prefetch_threads),
            realtime: Some(self.realtime),
            hints: others.and_then(|c| c.hints.clone()),
            rules: others.map(|c| entries(&c.rules)).unwrap_or_default(),
            revocation: self.revocation.map(|r| RevocationTable {
                window: Some(r.window),
                revoke_above: Some(r.revoke_above),
                reinstate_below: Some(r.reinstate_below),
            }),
            process: self
                .controlled
                .iter()
                .filter_map(|c| {
                    let name = c.process.clone()?;
                    Some(ProcessTable { name, hints: c.hints.clone(), rules: entries(&c.rules) })
                })
                .collect(),
            socket: None,
            limits: None,
            buffers: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_policy::PoolPolicy;
    use proptest::prelude::*;

    fn around() -> Surroundings<'static> {
        Surroundings {
            working_directory: Path::new("/nowhere/job"),
            file_directory: Path::new("/nowhere/etc"),
            memory_bytes: 1 << 30,
        }
    }

    fn flags(rules: &[&str]) -> Flags {
        Flags { rules: rules.iter().map(|r| (*r).to_owned()).collect(), ..Flags::default() }
    }

    fn says(flags: &Flags, file: &File) -> String {
        resolve(flags, file, around()).unwrap_err().to_string()
    }

    #[test]
    fn auto_is_what_the_model_of_the_device_says() {
        let auto = Flags {
            horizon: Some(Number::AUTO),
            batch: Some(Number::AUTO),
            device: Some("nvme".into()),
            budget: Some("512M".into()),
            ..flags(&["/tmp/**=lru"])
        };
        let effective = resolve(&auto, &File::default(), around()).unwrap();
        assert_eq!((effective.horizon, effective.batch), (Some(64), 37));
        assert_eq!(effective.chosen.as_deref(), Some("horizon 64 and batch 37 by the model of nvme"));
        // Printed as numbers, with what chose them; read back it is the same.
        let text = effective.to_toml();
        assert!(text.starts_with("# horizon 64 and batch 37 by the model of nvme\n"), "{text}");
        let again = resolve(&Flags::default(), &toml::from_str(&text).unwrap(), around()).unwrap();
        assert_eq!(again, Effective { chosen: None, ..effective });
        let one = Flags { batch: None, ..auto.clone() };
        assert_eq!(resolve(&one, &File::default(), around()).unwrap().batch, 1024);
        let none = Flags { horizon: None, batch: None, ..auto };
        assert!(says(&none, &File::default()).starts_with("a device is only for horizon or batch 'auto'"));
    }

    #[test]
    fn defaults_are_those_of_the_papers_but_for_the_batch() {
        let all = resolve(&Flags::default(), &File::default(), around()).unwrap();
        assert_eq!((all.budget_bytes, all.batch, all.block_bytes), (512 << 20, 1024, 8192));
        assert_eq!(
            (all.prefetch, all.allocation, all.order),
            (Prefetch::None, Allocation::LruSp, Order::Ascending)
        );
        assert!(all.controlled.is_empty() && all.revocation.is_none());
    }

    #[test]
    fn flags_beat_the_file_and_their_rules_come_first() {
        let file = File {
            budget: Some("10M".into()),
            batch: Some(Number::Is(4)),
            rules: vec![RuleEntry::Text("b/*=mru".into())],
            ..File::default()
        };
        let flags = Flags { budget: Some("20M".into()), ..flags(&["a/*=mru"]) };
        let all = resolve(&flags, &file, around()).unwrap();
        assert_eq!((all.budget_bytes, all.batch), (20 << 20, 4));
        let globs: Vec<_> = all.controlled[0].rules.iter().map(|r| r.glob.as_str()).collect();
        assert_eq!(globs, ["/nowhere/job/a/*", "/nowhere/etc/b/*"]);
    }

    #[test]
    fn hints_choose_informed_unless_something_else_is_chosen() {
        let hinted = Flags { hints: Some("-".into()), ..Flags::default() };
        assert_eq!(resolve(&hinted, &File::default(), around()).unwrap().prefetch, Prefetch::Informed);
        let none = Flags { prefetch: Some("none".into()), ..hinted };
        assert_eq!(resolve(&none, &File::default(), around()).unwrap().prefetch, Prefetch::None);
    }

    #[test]
    fn what_cannot_work_is_refused_in_one_line() {
        let budget = |text: &str| Flags { budget: Some(text.into()), ..Flags::default() };
        let none = File::default();
        assert_eq!(
            says(&budget("64K"), &none),
            "a budget of 64K is smaller than one batch (16 blocks of 8K); give at least 128K or a smaller batch"
        );
        assert!(says(&budget("2G"), &none).contains("more than the memory that may be used here (1.00 GiB)"));
        assert!(says(&budget("lots"), &none).starts_with("budget: 'lots' is not a size"));
        let prefetch = Flags { prefetch: Some("one-blok".into()), ..Flags::default() };
        assert_eq!(says(&prefetch, &none), "unknown prefetch 'one-blok'; did you mean 'one-block'?");
        assert!(
            says(&Flags { batch: Some(Number::Is(0)), ..Flags::default() }, &none).contains("from 1 to 4096")
        );
        assert!(
            says(&Flags { horizon: Some(Number::Is(0)), ..Flags::default() }, &none).contains("horizon of 0")
        );
        assert!(says(&flags(&["a=mru", "b=lru"]), &none).contains("two policies"));
        let named = |name: &str| ProcessTable { name: name.into(), hints: None, rules: vec![] };
        let twice = File { process: vec![named("x"), named("x")], ..File::default() };
        assert!(says(&Flags::default(), &twice).contains("two [[process]] tables"));
        let table = RevocationTable { revoke_above: Some(0.1), ..RevocationTable::default() };
        assert!(
            says(&Flags::default(), &File { revocation: Some(table), ..none }).starts_with("revocation:")
        );
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_the_same(
            budget in 1u64 << 20..1 << 30,
            batch in 1u32..=64,
            horizon in proptest::option::of(1u32..10_000),
            // Nothing that this machine may have as a link, such as /lib: a glob is printed where the link leads.
            globs in proptest::collection::vec("/nowhere/[a-z]{1,3}/(\\*|\\*\\*|x\\.[a-z])", 0..4),
            hints in proptest::option::of("/[a-z \"]{1,8}"),
            names in proptest::collection::btree_set("[a-z]{1,5}", 0..3),
            revoke in any::<bool>(),
        ) {
            let rules: Vec<_> =
                globs.into_iter().map(|glob| Rule { glob, policy: PoolPolicy::Mru, priority: 3 }).collect();
            let mut controlled = Vec::new();
            if !rules.is_empty() || hints.is_some() {
                controlled.push(Controlled { process: None, rules: rules.clone(), hints: hints.map(Into::into) });
            }
            controlled.extend(names.into_iter().map(|name| Controlled {
                process: Some(name),
                rules: rules.clone(),
                hints: None,
            }));
            let all = Effective {
                budget: Size::Bytes(budget),
                budget_bytes: budget,
                block_bytes: 8192,
                prefetch: Prefetch::OneBlock,
                batch,
                horizon,
                chosen: None,
                order: Order::Fcfs,
                allocation: Allocation::LruS,
                prefetch_threads: 2,
                realtime: false,
                revocation: revoke.then(Revocation::default),
                controlled,
            };
            let text = all.to_toml();
            let file: File = toml::from_str(&text).unwrap();
            prop_assert_eq!(resolve(&Flags::default(), &file, around()).unwrap(), all, "{}", text);
        }
    }
}
