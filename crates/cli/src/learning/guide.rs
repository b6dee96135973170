//! A night on which the job is steered by what is known of it.
//!
//! The plan's lists are handed to the plane, one for each reader, as far ahead as is worth it: the policy needs to know
//! what comes within a few times the cache, and a list of millions of positions would take memory that the job can use
//! better. Where a file is tonight a [`Finder`] has found out, or a list waits for it. The casting says which process follows which list. A recording is made of the night as well: what the job
//! did tonight is what is known tomorrow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use foretell_learn::{Chunk, Finder, How, Place, Plan};
use foretell_pagecache::watch::{Gather, Totals};
use foretell_pagecache::{Casting, HintChunk, ManagerSpec, Options, Plane, Prefetch, SessionId, SessionSpec};
use foretell_recording::PAGE_BYTES;

use super::patience::Patience;
use super::{Ran, Wanted, alone, pass_signals_on, start};
use crate::program::{Program, exit_code};
use crate::stats::Stats;
use crate::terminal::warn;

/// Chunks handed over at a time: a file name is looked up for each, two microseconds, and a new file is opened.
const CHUNKS_A_TIME: usize = 64;
/// What is handed over in one go: before the job begins, of which it loses that much, and while it runs.
const FIRST_TIME: Duration = Duration::from_millis(20);
const FEED_TIME: Duration = Duration::from_millis(10);
/// References up to which the night is compared with the optimum: a tenth of a second and 32 MB at its end.
const COMPARED_REFERENCES: u64 = 1 << 21;
/// Lists reach this many times the cache ahead of their readers.
const CACHES_AHEAD: u64 = 8;
/// And this many blocks at least.
const LEAST_AHEAD: u64 = 1 << 16;
/// And no more than half of what a list of the policy may hold.
const MOST_AHEAD: u64 = 1 << 21;
/// The longest wait when nothing happens.
const IDLE: Duration = Duration::from_millis(250);
/// The same while a list waits for a file to be found, which takes a disk some milliseconds.
const SOUGHT: Duration = Duration::from_millis(2);

/// Hands the lists of a plan to a session of a plane.
struct Guide<'a> {
    plan: &'a Plan,
    finder: Finder,
    session: SessionId,
    /// The next chunk of each list.
    next: Vec<usize>,
    /// Positions that a list has ahead of its reader, as far as it goes.
    window: usize,
    /// Files that the plane has refused.
    failed: Vec<bool>,
    /// A list waits for a file that is being looked for.
    is_waiting: bool,
}

impl<'a> Guide<'a> {
    fn new(plan: &'a Plan, session: SessionId, block_bytes: u32) -> Guide<'a> {
        let cache_blocks = plan.budget_bytes / u64::from(block_bytes);
        let window = (CACHES_AHEAD * cache_blocks).clamp(LEAST_AHEAD, MOST_AHEAD);
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let (next, failed) = (vec![0; plan.lists.len()], vec![false; plan.files.len()]);
        let finder = Finder::start(Arc::clone(&plan.files));
        Guide { plan, finder, session, next, window, failed, is_waiting: false }
    }

    /// Hands over what the lists have room for, for about as long as `time` says.
    fn feed(&mut self, plane: &mut Plane, time: Duration) {
        let until = Instant::now() + time;
        self.is_waiting = false;
        for (list, chunks) in self.plan.lists.iter().enumerate() {
            let Ok(number) = u32::try_from(list) else { return };
            // Also of a list for which there is no time yet: those after it have their numbers.
            if self.next[list] == 0 && plane.disclose_list(self.session, 0, number, &[]).is_err() {
                return;
            }
            while plane.list_ahead(self.session, 0, number) < self.window && Instant::now() < until {
                let (hints, end) = self.hints(chunks, self.next[list]);
                if hints.is_empty() {
                    self.next[list] = end;
                    break;
                }
                let (at, hints): (Vec<usize>, Vec<HintChunk>) = hints.into_iter().unzip();
                self.next[list] = match plane.disclose_list(self.session, 0, number, &hints) {
                    // The one before is still on its way.
                    Ok(taken) if taken.chunks == 0 => return,
                    Ok(taken) => at.get(taken.chunks).copied().unwrap_or(end),
                    Err(error) => {
                        // That file cannot be followed (it has shrunk, is on no disk); the next one may.
                        let refused = at.get(error.chunk).copied().unwrap_or(end);
                        if let Some(chunk) = chunks.get(refused) {
                            self.failed[chunk.file as usize] = true;
                        }
                        refused
                    }
                };
            }
        }
    }

    /// The next few chunks that can be handed over, each with its place in the list, and where the list goes on behind
    /// them. Left out is what is gone, and what lies beyond the end of a file that has shrunk.
    fn hints(&mut self, chunks: &[Chunk], from: usize) -> (Vec<(usize, HintChunk)>, usize) {
        let mut hints = Vec::with_capacity(CHUNKS_A_TIME);
        for (at, chunk) in chunks.iter().enumerate().skip(from) {
            if hints.len() >= CHUNKS_A_TIME {
                return (hints, at);
            }
            if self.failed[chunk.file as usize] {
                continue;
            }
            match self.finder.place(chunk.file) {
                Place::Sought => {
                    self.is_waiting = true;
                    return (hints, at);
                }
                Place::Gone => self.failed[chunk.file as usize] = true,
                Place::There(path, bytes) => {
                    let offset = u64::from(chunk.first_page) * PAGE_BYTES;
                    let length = (u64::from(chunk.pages) * PAGE_BYTES).min(bytes.saturating_sub(offset));
                    if length > 0 {
                        hints.push((at, HintChunk { path, offset, length: Some(length) }));
                    }
                }
            }
        }
        (hints, chunks.len())
    }
}

/// Runs the job by a plan, and records it anew.
pub(super) fn steered(
    wanted: &Wanted,
    plan: &Plan,
    recording: &Path,
    counts: impl Fn(u8) -> bool,
    mut patience: Patience,
) -> Result<Ran> {
    // The plane forks a helper: before there are threads.
    let mut plane = match Plane::open(options(plan)) {
        Ok(plane) => plane,
        Err(error) => {
            warn(&format!("the job is not steered ({error})"));
            return alone(wanted);
        }
    };
    let mut program = match Program::start_held(wanted.program.as_os_str(), &wanted.arguments) {
        Ok(program) => program,
        Err(error) => {
            warn(&format!("the job is not steered ({error:#})"));
            drop(plane);
            return alone(wanted);
        }
    };
    let name = wanted.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let spec = SessionSpec {
        root_pid: program.pid(),
        managers: vec![ManagerSpec { name, ..ManagerSpec::default() }],
        casting: Some(Casting::new(&plan.roles, plan.list_of.clone())),
    };
    let mut guide = match plane.add_session(spec) {
        Ok(session) => Some(Guide::new(plan, session, plane.options().block_bytes)),
        Err(error) => {
            warn(&format!("the job is not steered ({error})"));
            None
        }
    };
    let gather = Gather::create(recording, program.pid())
        .map_err(|error| warn(&format!("what is seen tonight cannot be kept ({error})")));
    plane.listen(gather.ok());
    pass_signals_on(&program);
    if let Some(guide) = &mut guide {
        guide.feed(&mut plane, FIRST_TIME);
    }
    start::fetch(plan.start.clone());
    program.release();
    let started = Instant::now();
    let mut ended_as = How::Alone;
    let status = loop {
        let Some(guiding) = &mut guide else { break None };
        let made = || plane.session_report(guiding.session).map_or(0, |report| report.counts.references);
        if patience.is_over(started.elapsed(), made) {
            warn("steering has ended: the job is slower than by itself, and goes on so");
            (guide, ended_as) = (None, How::Steered);
            continue;
        }
        let step = catch_unwind(AssertUnwindSafe(|| {
            guiding.feed(&mut plane, FEED_TIME);
            plane.step(&[program.ended()], if guiding.is_waiting { SOUGHT } else { IDLE })
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
        guide = None;
    };
    let Some(status) = status else {
        // What was changed is undone now, not when the job has ended.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(plane)));
        let code = exit_code(program.wait()?);
        let elapsed = started.elapsed();
        return Ok(Ran::unseen(ended_as, code, elapsed));
    };
    let (elapsed, code) = (started.elapsed(), exit_code(status));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let gather = plane.listen(None);
        let predicted = guide.as_ref().and_then(|guide| plane.predicted(guide.session, 0));
        (gather, predicted, plane.finish().0)
    }));
    let Ok((gather, predicted, report)) = ended else {
        warn("what was seen could not be kept (a defect of foretell)");
        return Ok(Ran::unseen(How::Steered, code, elapsed));
    };
    let stats = Stats { elapsed_s: elapsed.as_secs_f64(), ..Stats::from(report) };
    let wait_ns = (stats.wait_s * 1e9) as u64;
    if let Some(gather) = gather.filter(|_| counts(code)) {
        let totals = Totals {
            elapsed,
            wait_ns,
            device_read_bytes: stats.device_read_bytes,
            lost_events: stats.lost_events,
            exit_code: Some(code.into()),
        };
        if let Err(error) = gather.finish(totals) {
            warn(&format!("what was seen could not be kept ({error})"));
        }
    }
    Ok(Ran {
        how: How::Steered,
        code,
        elapsed,
        wait_ns: Some(wait_ns),
        read_bytes: Some(stats.device_read_bytes),
        predicted,
        stats: Some(stats),
        names: guide.map(|guide| guide.finder.names()).unwrap_or_default(),
    })
}

fn options(plan: &Plan) -> Options {
    Options {
        prefetch: Prefetch::Informed,
        follow_pressure: true,
        compare_with_optimum: plan.references <= COMPARED_REFERENCES,
        ..Options::new(plan.budget_bytes)
    }
}
