//! A night on which the job is steered by what is known of it.
//!
//! The plan's lists are handed to the plane (`guide.rs`), and a recording is made of the night as well: what the job did
//! tonight is what is known tomorrow.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use foretell_learn::{Chunk, Finder, How, Lists, Plan, memory};
use foretell_pagecache::watch::{Gather, Totals};
use foretell_pagecache::{Casting, Opening, Options, Prefetch};
use foretelld::{RunManager, Service};

use rustix::fs::{Advice, fadvise};

use super::patience::Patience;
use super::{Ran, Wanted, alone, start, watched};
use crate::attached::Job;
use crate::commands::run::private_host;
use crate::guide::Guide;
use crate::program::{NotRun, Program, exit_code};
use crate::shortage::Shortage;
use crate::stats::Stats;
use crate::terminal::{warn, with_causes};
use crate::watched::until_end;

/// References up to which the night is compared with the optimum: a tenth of a second and 32 MB at its end.
const COMPARED_REFERENCES: u64 = 1 << 21;
/// A smaller file is read in one request.
const PIECES_BYTES: u64 = 1 << 20;
/// Neighbouring pages that are read together in the mean where a file is read from one end to the other.
const SEQUENTIAL_PAGES: u64 = 16;
/// If a smaller share of what the job begins to read is known, it is another one tonight, or asks for other things: who
/// guesses does better.
const LEAST_KNOWN: f64 = 0.25;

/// Runs the job by a plan, and records it anew.
pub(super) fn steered(
    wanted: &Wanted,
    plan: &Plan,
    recording: &Path,
    counts: impl Fn(u8) -> bool,
    mut patience: Patience,
) -> Result<Ran> {
    foretell_pagecache::let_go_at_once();
    // A job is held for what the kernel takes to check our programs, 10 ms and more: all else is done meanwhile.
    let opening = Opening::begin(options(plan));
    wanted.line.about_to_begin();
    let finder = Finder::start_by(Arc::clone(&plan.lists.files), foretell_pagecache::beside);
    let mut program = match Program::start_held(&wanted.program, &wanted.arguments) {
        Ok(program) => program,
        // Somebody has ended it before it began.
        Err(error) if error.is::<NotRun>() => return Err(error),
        Err(error) => {
            warn(&format!("the job is not steered ({})", with_causes(&error)));
            return alone(wanted);
        }
    };
    wanted.line.begun(&mut program);
    let gather = Gather::create(recording, program.pid());
    let host = opening.and_then(Opening::wait).map_err(anyhow::Error::from).and_then(private_host);
    let mut host = match host {
        Ok(host) => host,
        Err(error) => {
            warn(&format!("the job is not steered ({})", with_causes(&error)));
            program.release();
            let ended = watched::go_on(program, Instant::now(), &wanted.line)?;
            return Ok(Ran::unseen(How::Alone, exit_code(ended.status), ended.elapsed));
        }
    };
    let job = (&*wanted.program, program.pid());
    let mut guide = take_control(&mut host, plan, finder, job, patience.for_lists());
    start::fetch(plan.start.clone());
    match gather {
        Ok(mut gather) => {
            gather.hold(program.pid());
            gather.begin();
            host.plane_mut().listen(Some(gather));
        }
        Err(error) => warn(&format!("what is seen tonight cannot be kept ({error})")),
    }
    // It does not wait for the lists: what it reads until they are there is in the ring.
    program.release();
    let started = Instant::now();
    let (mut ended_as, mut are_told, mut is_short) = (How::Alone, false, false);
    let mut shortage = Shortage::watching();
    let status = loop {
        let Some(guiding) = &mut guide else { break None };
        let made =
            || host.plane().session_report(guiding.session()).map_or(0, |report| report.counts.references);
        if guiding.is_told() && !std::mem::replace(&mut are_told, true) {
            patience.lists_are_told(started.elapsed(), made());
        }
        if are_told && patience.is_over(started.elapsed(), made) {
            warn("steering has ended: the job is slower than by itself, and goes on so");
            ended_as = How::Steered;
            break None;
        }
        if host.plane().known_share(guiding.session(), 0).is_some_and(|share| share < LEAST_KNOWN) {
            warn("steering has ended: the job reads other things tonight, and goes on by itself");
            ended_as = How::Steered;
            break None;
        }
        if let Some(why) = shortage.found() {
            wanted.line.leave(&why, How::Steered);
            warn(&format!("steering has ended ({why}); the job goes on by itself"));
            (is_short, ended_as) = (true, How::Steered);
            break None;
        }
        let step = catch_unwind(AssertUnwindSafe(|| {
            guiding.feed(host.plane_mut());
            host.round(&[program.ended()], guiding.patience(shortage.patience()))
        }));
        let problem = match step {
            Ok(Ok(ready)) if ready.is_empty() => continue,
            Ok(Ok(_)) => match program.try_wait()? {
                Some(status) => break Some(status),
                None => continue,
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a defect of foretell".to_owned(),
        };
        warn(&format!("steering has ended ({problem}); the job goes on by itself"));
        break None;
    };
    let Some(status) = status else {
        let in_pieces =
            guide.as_ref().map(|guide| in_pieces(&plan.lists, guide.handed())).unwrap_or_default();
        drop(guide);
        // What was changed is undone now, not when the job has ended; and other runs are told what was done for them.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(host.finish())));
        leave_none(in_pieces);
        let ended = if is_short {
            until_end(&mut Job::Program(program), started, None, &wanted.line, |_| ())?
        } else {
            watched::go_on(program, started, &wanted.line)?
        };
        let short_bytes = memory::usable_bytes().filter(|_| is_short);
        return Ok(Ran { short_bytes, ..Ran::unseen(ended_as, exit_code(ended.status), ended.elapsed) });
    };
    let (elapsed, code) = (started.elapsed(), exit_code(status));
    Ok(seen(host, guide, (elapsed, code), counts))
}

/// Puts a program that is held under control; says why not where that cannot be.
fn take_control<'a>(
    host: &mut Service,
    plan: &'a Plan,
    finder: Finder,
    (program, pid): (&OsStr, u32),
    lists_take: Duration,
) -> Option<Guide<'a>> {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let managers = vec![RunManager { name, process: None, rules: Vec::new() }];
    let casting = Casting::new(&plan.lists.roles, plan.lists.list_of.clone());
    match (host.begin(pid, managers, Some(casting)), host.own_session()) {
        (Ok(_), Some(session)) => {
            Some(Guide::new(&plan.lists, finder, session, 0, host.plane().options(), lists_take))
        }
        (begun, _) => {
            let why = begun.err().map(|(_, why)| why).unwrap_or_default();
            warn(&format!("the job is not steered ({why})"));
            None
        }
    }
}

/// What was seen of a job that was steered to its end. The recording is kept if `counts` says so of the exit code.
fn seen(
    mut host: Service,
    guide: Option<Guide<'_>>,
    (elapsed, code): (Duration, u8),
    counts: impl Fn(u8) -> bool,
) -> Ran {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let gather = host.plane_mut().listen(None);
        let predicted = guide.as_ref().and_then(|guide| host.plane().predicted(guide.session(), 0));
        (gather, predicted, host.finish())
    }));
    let Ok((gather, predicted, report)) = ended else {
        warn("what was seen could not be kept (a defect of foretell)");
        return Ran::unseen(How::Steered, code, elapsed);
    };
    let stats = Stats { elapsed_s: elapsed.as_secs_f64(), ..Stats::from(report) };
    let wait_ns = (stats.wait_s * 1e9) as u64;
    // What lies between files is nothing that the job reads: by that nights are compared.
    let read_bytes = stats.device_read_bytes.saturating_sub(stats.passed_bytes);
    let memory_bytes = gather.as_ref().and_then(Gather::memory_bytes);
    let files = gather.as_ref().map(Gather::files);
    if let Some(gather) = gather.filter(|_| counts(code)) {
        let totals = Totals {
            elapsed,
            wait_ns,
            device_read_bytes: read_bytes,
            lost_events: stats.lost_events,
            exit_code: Some(code.into()),
        };
        if let Err(error) = gather.finish(totals) {
            warn(&format!("what was seen could not be kept ({error})"));
        }
    }
    Ran {
        wait_ns: Some(wait_ns),
        read_bytes: Some(read_bytes),
        files,
        memory_bytes,
        predicted,
        stats: Some(stats),
        names: guide.map(|guide| guide.names()).unwrap_or_default(),
        ..Ran::unseen(How::Steered, code, elapsed)
    }
}

/// Files that are read from one end to the other, of what has been handed over. Of these steering keeps pieces, between which
/// the kernel asks for each hole by itself: on a disk with an arm that took ten times as long as to read all of it anew.
fn in_pieces<'a>(lists: &Lists, handed: impl Iterator<Item = &'a Chunk>) -> Vec<PathBuf> {
    let mut read: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for chunk in handed {
        let (chunks, pages) = read.entry(chunk.file).or_default();
        (*chunks, *pages) = (*chunks + 1, *pages + u64::from(chunk.pages));
    }
    let read = read.into_iter().filter(|(_, (chunks, pages))| *pages >= chunks * SEQUENTIAL_PAGES);
    let files = read.filter_map(|(file, _)| lists.files.get(file as usize));
    files.filter(|file| file.bytes >= PIECES_BYTES).map(|file| file.path.clone()).collect()
}

/// Drops what is cached of these: by a thread, as the job must not be waited for any later. One that cannot be had is no loss.
fn leave_none(in_pieces: Vec<PathBuf>) {
    if in_pieces.is_empty() {
        return;
    }
    // Not waited for: it ends by itself, or with us.
    let _ = std::thread::Builder::new().name("pieces".into()).spawn(move || {
        for file in in_pieces.iter().filter_map(|path| foretell_pagecache::open_regular(path)) {
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        }
    });
}

fn options(plan: &Plan) -> Options {
    Options {
        prefetch: Prefetch::Informed,
        follow_pressure: true,
        movement_ns: plan.movement_ns,
        compare_with_optimum: plan.lists.references <= COMPARED_REFERENCES,
        ..Options::new(plan.budget_bytes)
    }
}

#[cfg(test)]
mod tests {
    use foretell_learn::PlannedFile;

    use super::*;

    #[test]
    fn what_was_not_handed_over_is_in_no_pieces() {
        let file = |name: &str, bytes| PlannedFile { path: name.into(), bytes, inode: 0 };
        let files = [
            file("/read", PIECES_BYTES),
            file("/small", PIECES_BYTES - 1),
            file("/here and there", PIECES_BYTES),
            file("/to come", PIECES_BYTES),
        ];
        let chunks = |file| (0..4).map(move |at| Chunk { file, first_page: at * 100, pages: 40 });
        let mut chunks: Vec<Chunk> = (0..4).flat_map(chunks).collect();
        chunks[8..12].iter_mut().for_each(|chunk| chunk.pages = 1);
        let lists = Lists {
            files: files.into(),
            lists: vec![chunks],
            roles: Vec::new(),
            list_of: Vec::new(),
            references: 0,
        };
        assert_eq!(in_pieces(&lists, lists.lists[0].iter().take(12)), [Path::new("/read")]);
    }
}
