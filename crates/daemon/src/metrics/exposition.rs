//! A snapshot as text, in the format that Prometheus scrapes (OpenMetrics 1.0).
//!
//! Names follow the conventions: a prefix, the unit at the end (`_bytes`, `_seconds`), `_total` on what only
//! grows. The counts of the whole service, of a process and of a file are metrics of their own
//! (`foretell_references_total`, `foretell_process_references_total`, `foretell_file_references_total`), so
//! that the sum over a metric never counts anything twice.
//!
//! Series are bounded: rows are given of at most [`ROWS`] processes, managers and files each, those with the
//! most references, and `foretell_rows_omitted` says how many there are besides. With ten counts and a few
//! numbers more for each, and twelve for each of some twenty-five kinds of work, an exposition has fewer than 5,000
//! samples. A label has at most [`LABEL_BYTES`].

use std::collections::BTreeMap;
use std::fmt;

use foretell_pagecache::{CLASSES_US, Counters, FileStatus, ManagerStatus, ProcessStatus, Work};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::snapshot::Snapshot;

/// Processes, managers and files given one by one, of each at most.
pub const ROWS: usize = 128;

/// Bytes of a label's value at most: of a longer path the end, after three dots.
pub const LABEL_BYTES: usize = 256;

/// How much of a snapshot is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The sums of all.
    Sums,
    /// The sums, and a row a process, manager and file.
    Rows,
}

/// The text for a scrape.
#[must_use]
pub fn exposition(snapshot: Snapshot, detail: Detail) -> String {
    let mut registry = Registry::with_prefix("foretell");
    registry.register_collector(Box::new(Exposition { snapshot, detail }));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

/// A label: its name and its value.
type Label = (&'static str, String);

#[derive(Debug)]
struct Exposition {
    snapshot: Snapshot,
    detail: Detail,
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut writer = Writer { encoder: &mut encoder };
        writer.sums(&self.snapshot)?;
        match self.detail {
            Detail::Sums => Ok(()),
            Detail::Rows => writer.rows(&self.snapshot),
        }
    }
}

/// Writes metrics, one with all its samples at a time.
struct Writer<'a, 'b> {
    encoder: &'a mut DescriptorEncoder<'b>,
}

impl Writer<'_, '_> {
    fn sums(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let cache = &snapshot.cache;
        let build = [(vec![("version", snapshot.version.clone())], 1)];
        self.gauges("build_info", "The version of the service, always 1", &build)?;
        self.real("uptime", "Time since the service was started", &Unit::Seconds, snapshot.uptime_s, false)?;
        self.bytes("budget", "The memory that the service may fill", cache.budget_bytes)?;
        self.bytes("block", "The size of a block", u64::from(cache.block_bytes))?;
        self.gauge(
            "cached_blocks",
            "Blocks of the budget in use, cached or on their way",
            cache.used_blocks,
        )?;
        self.gauge("placeholders", "Placeholders in use", cache.placeholders)?;
        self.gauge("sessions", "Sessions at present", snapshot.sessions_open)?;
        self.counter("sessions_opened", "Sessions opened", snapshot.sessions_opened)?;
        let help = "Connections and sessions refused or ended at a limit or for a malformed message";
        self.counter("sessions_refused", help, snapshot.sessions_refused)?;
        for count in Counters::TABLE {
            self.counter(count.name, count.help, (count.of)(&cache.counts))?;
        }
        let help = "Observations lost: the ring was full, or (Linux 7.0 and later) the kernel passed over the \
                    observer";
        self.counter("lost_events", help, cache.lost_events)?;
        let help = "Bytes read from devices for the programs and for prefetches";
        self.counter_bytes("device_read", help, &[(Vec::new(), cache.device_read_bytes)])?;
        let help = "Time that programs waited for pages to be read, summed over their threads";
        self.real("wait", help, &Unit::Seconds, cache.wait_s, true)?;
        self.real("cpu", "Processor time that the service used", &Unit::Seconds, cache.cpu_s, true)?;
        self.works(&cache.works)
    }

    /// What the loop does, and how long its pieces take.
    fn works(&mut self, works: &[Work]) -> fmt::Result {
        let name = |work: &Work| vec![("work", work.name.clone())];
        let pieces: Vec<_> = works.iter().map(|work| (name(work), work.pieces)).collect();
        self.counters("loop_pieces", "Pieces of work that the loop has done", &pieces)?;
        let help = "Pieces of work that took no longer than so many microseconds";
        let classes = |work: &Work| {
            let mut sum = 0;
            let up_to = CLASSES_US.iter().zip(work.classes).map(|(us, pieces)| {
                sum += pieces;
                (vec![("work", work.name.clone()), ("us", us.to_string())], sum)
            });
            up_to.collect::<Vec<_>>()
        };
        let classes: Vec<_> = works.iter().flat_map(classes).collect();
        self.counters("loop_pieces_within", help, &classes)?;
        let help = "Time that the loop has worked";
        let seconds = Some(&Unit::Seconds);
        self.family("loop", help, seconds, works, |work| (name(work), ConstCounter::new(work.total_s)))?;
        let help = "The longest piece of work of the loop";
        self.family("loop_longest", help, seconds, works, |work| {
            (name(work), ConstGauge::new(work.longest_s))
        })
    }

    fn rows(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let cache = &snapshot.cache;
        let processes = Kept::most(&cache.processes, |process| process.counts.references);
        let managers = Kept::most(&cache.managers, |manager| u64::from(manager.owned_blocks));
        let files = Kept::most(&cache.files, |file| file.counts.references);
        // A snapshot leaves out some itself.
        let files_left = files.left + (snapshot.rows_omitted - snapshot.processes_omitted);
        let processes_left = processes.left + snapshot.processes_omitted;
        let kinds = [("process", processes_left), ("manager", managers.left), ("file", files_left)];
        let omitted = kinds.map(|(kind, left)| (vec![("kind", kind.to_owned())], left));
        self.gauges("rows_omitted", "Processes, managers and files that are not given one by one", &omitted)?;
        self.processes(&processes.rows)?;
        self.managers(&managers.rows)?;
        self.files(&files.rows)
    }

    fn processes(&mut self, rows: &[&ProcessStatus]) -> fmt::Result {
        let name = |process: &ProcessStatus| {
            vec![
                ("pid", process.pid.to_string()),
                ("process", label(&process.name)),
                ("user", process.user.to_string()),
                ("session", process.session.to_string()),
            ]
        };
        for count in Counters::TABLE {
            let samples = samples(rows, name, |process| (count.of)(&process.counts));
            self.counters(&format!("process_{}", count.name), count.help, &samples)?;
        }
        let bytes = samples(rows, name, |process| process.device_read_bytes);
        self.counter_bytes("process_device_read", "Bytes read from devices for the process", &bytes)?;
        let help = "Time that the process waited for pages to be read";
        self.family("process_wait", help, Some(&Unit::Seconds), rows, |process| {
            (name(process), ConstCounter::new(process.wait_s))
        })
    }

    fn managers(&mut self, rows: &[&ManagerStatus]) -> fmt::Result {
        let name = |manager: &ManagerStatus| {
            vec![
                ("manager", label(&manager.name)),
                ("pid", manager.root_pid.to_string()),
                ("user", manager.user.to_string()),
                ("session", manager.session.to_string()),
                ("index", manager.index.to_string()),
            ]
        };
        type Number = fn(&ManagerStatus) -> u64;
        let gauges: [(&str, &str, Number); 4] = [
            ("owned_blocks", "Blocks that the manager owns", |m| u64::from(m.owned_blocks)),
            ("disclosed_blocks", "Disclosed blocks ahead of the cursor", |m| m.disclosed_ahead),
            ("queued_ranges", "Disclosed ranges that wait for room in the list", |m| m.queued),
            ("revoked", "1 while the right to overrule is revoked", |m| u64::from(m.revoked)),
        ];
        for (metric, help, number) in gauges {
            self.gauges(&format!("manager_{metric}"), help, &samples(rows, name, number))?;
        }
        let counters: [(&str, &str, Number); 8] = [
            ("consulted", "Times the manager was asked for a replacement", |m| m.consulted),
            ("overruled", "Times it chose another block than the candidate", |m| m.overruled),
            ("placeholders_used", "Times a placeholder proved such a choice wrong", |m| m.placeholders_used),
            ("revocations", "Times its right to overrule was revoked", |m| m.revocations),
            ("predicted", "References that the manager's list had predicted", |m| m.predicted),
            ("unpredicted", "References that the list had not predicted", |m| m.unpredicted),
            ("skipped", "Predictions that were passed over", |m| m.skipped),
            ("lists_discarded", "Times a list was put aside for being wrong too often", |m| {
                m.lists_discarded
            }),
        ];
        for (metric, help, number) in counters {
            self.counters(&format!("manager_{metric}"), help, &samples(rows, name, number))?;
        }
        Ok(())
    }

    fn files(&mut self, rows: &[&FileStatus]) -> fmt::Result {
        let name = |file: &FileStatus| vec![("file", label(&file.path.to_string_lossy()))];
        let bytes = samples(rows, name, |file| file.cached_bytes);
        self.gauges_bytes("file_cached", "How much of the file is cached", &bytes)?;
        self.gauges_bytes("file_size", "The size of the file", &samples(rows, name, |f| f.size_bytes))?;
        for count in Counters::TABLE {
            let samples = samples(rows, name, |file| (count.of)(&file.counts));
            self.counters(&format!("file_{}", count.name), count.help, &samples)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: u32) -> fmt::Result {
        self.gauges(name, help, &[(Vec::new(), u64::from(value))])
    }

    fn bytes(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.gauges_bytes(name, help, &[(Vec::new(), value)])
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, &[(Vec::new(), value)])
    }

    fn real(&mut self, name: &str, help: &str, unit: &Unit, value: f64, grows: bool) -> fmt::Result {
        if grows {
            self.family(name, help, Some(unit), &[value], |value| (Vec::new(), ConstCounter::new(*value)))
        } else {
            self.family(name, help, Some(unit), &[value], |value| (Vec::new(), ConstGauge::new(*value)))
        }
    }

    fn gauges(&mut self, name: &str, help: &str, samples: &[(Vec<Label>, u64)]) -> fmt::Result {
        self.family(name, help, None, samples, |(labels, value)| (labels.clone(), ConstGauge::new(*value)))
    }

    fn gauges_bytes(&mut self, name: &str, help: &str, samples: &[(Vec<Label>, u64)]) -> fmt::Result {
        self.family(name, help, Some(&Unit::Bytes), samples, |(labels, value)| {
            (labels.clone(), ConstGauge::new(*value))
        })
    }

    fn counters(&mut self, name: &str, help: &str, samples: &[(Vec<Label>, u64)]) -> fmt::Result {
        self.family(name, help, None, samples, |(labels, value)| (labels.clone(), ConstCounter::new(*value)))
    }

    fn counter_bytes(&mut self, name: &str, help: &str, samples: &[(Vec<Label>, u64)]) -> fmt::Result {
        self.family(name, help, Some(&Unit::Bytes), samples, |(labels, value)| {
            (labels.clone(), ConstCounter::new(*value))
        })
    }

    /// A metric with its samples; nothing at all when there are none.
    fn family<T, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        rows: &[T],
        sample: impl Fn(&T) -> (Vec<Label>, M),
    ) -> fmt::Result {
        let Some(first) = rows.first() else { return Ok(()) };
        let kind = sample(first).1.metric_type();
        let mut metric = self.encoder.encode_descriptor(name, help, unit, kind)?;
        for row in rows {
            let (labels, value) = sample(row);
            if labels.is_empty() {
                value.encode(metric)?;
                return Ok(());
            }
            value.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// The rows that are given, in their order, and how many are not.
struct Kept<'a, T> {
    rows: Vec<&'a T>,
    left: u64,
}

impl<'a, T> Kept<'a, T> {
    /// Those with the highest numbers; of equals the first.
    fn most(all: &'a [T], number: impl Fn(&T) -> u64) -> Kept<'a, T> {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(number(&all[*index])));
        order.truncate(ROWS);
        order.sort_unstable();
        let rows = order.into_iter().map(|index| &all[index]).collect();
        Kept { rows, left: all.len().saturating_sub(ROWS) as u64 }
    }
}

/// A sample a row. Rows that have the same labels (a file that was made anew under its name) are summed up:
/// an exposition must not name the same series twice.
fn samples<T>(
    rows: &[&T],
    labels: impl Fn(&T) -> Vec<Label>,
    number: impl Fn(&T) -> u64,
) -> Vec<(Vec<Label>, u64)> {
    let mut at: BTreeMap<Vec<Label>, usize> = BTreeMap::new();
    let mut samples: Vec<(Vec<Label>, u64)> = Vec::with_capacity(rows.len());
    for row in rows {
        let labels = labels(row);
        match at.get(&labels) {
            Some(index) => samples[*index].1 = samples[*index].1.saturating_add(number(row)),
            None => {
                at.insert(labels.clone(), samples.len());
                samples.push((labels, number(row)));
            }
        }
    }
    samples
}

/// A label's value, not longer than it may be. Escaping is the encoder's.
fn label(text: &str) -> String {
    if text.len() <= LABEL_BYTES {
        return text.to_owned();
    }
    const DOTS: &str = "...";
    let start = text.ceil_char_boundary(text.len() - (LABEL_BYTES - DOTS.len()));
    format!("{DOTS}{}", &text[start..])
}
