//! What to do tonight, from what the nights before were like.
//!
//! 1. A job of which no recording is there is watched.
//! 2. A job that waited for too little ([`is_worth_steering`]) has nothing to gain; it runs alone, and is watched again after
//!    [`LOOK_AGAIN`] such nights, or as soon as a night alone reads much more than the one that was watched.
//! 3. So does one for which there is no plan ([`without_plan`]).
//! 4. A job that needed all the memory there was, so that we left it in the middle of a night, runs alone the next night where
//!    there is no more of it. If that took no longer, it goes on to run alone, without any process of ours, and is looked at
//!    again after a week, and then after a month ([`SHORT_PAUSES`]); else it was helped until we left. If it was so while it
//!    was steered, and had room while it was watched, only steering pauses for so long: lists take more memory than guesses.
//! 5. Else it is steered. When a steered night takes longer than [`WORSE`] times what the job took by itself, steering
//!    pauses: for one night, then for three, seven and so on up to a month, so that a job which is better left alone is left
//!    alone.
//!    The first night of a pause is watched: what the job does may have changed.
//!
//! What counts for steering are the waits for what the job reads of files, as far as these are told apart. They are the sum of all
//! threads' waits. While one waits another one may compute, so that no more of them can be saved than is left of the job's time
//! without what its computing takes; and half of that must be more than what steering takes.
//!
//! A night on which enough was saved by guessing what comes next is worth to be watched whatever else is decided: no night of
//! such a job is left alone. What was saved is an estimate, and where threads wait beside each other no good one. A job of
//! which it is too much to be believed, or too little when it is divided among such threads, runs alone on the third night, one
//! whose threads compute beside each other on the second, and again every [`CONTROL`]th one. Where there is such a night to compare
//! with, the times decide.
//!
//! Only nights that ended as the job usually ends count: one that failed after a second says nothing. Nor does the time of one on
//! which most of what the job reads was cached. Where a steered night has read much more than all those by
//! itself, the next one is watched, to have one to compare with.

use crate::night::{How, Night};

/// Seconds of waiting, and the share of the job's time that this must be as well, from which on it is worth to steer: what is saved
/// must be several times what our own computing takes. Waits of threads beside each other count once.
const WORTH: (f64, f64) = (1.0, 0.05);
/// The same of a job that does little else. To begin and to end costs 0.02 to 0.1 s, and of 0.5 to 0.9 s such jobs kept 0.15 to
/// 0.5. With a share of 0.57 on a quick disk, 0.13 ms a file, 0.56 s became 0.62. Where guesses have saved more than what is
/// left, that is the disk's: steered, such jobs took 0.1 to 0.2 s longer.
const WORTH_SHORT: (f64, f64) = (0.25, 0.6);
/// Seconds that steering takes to begin and to end, for each byte that is read, and for each file: 30 to 80 ms, 8 us of a
/// processor for 8 KiB, and 155 us. Of the latter two half counts, as it may be one that the job does not use: of 13,000 files
/// on a quick disk `cp -r` took 70 us a file longer.
const TAKEN_S: f64 = 0.08;
const TAKEN_A_BYTE_S: f64 = 0.5e-9;
const TAKEN_A_FILE_S: f64 = 70e-6;
/// The share of the waits that is saved, as a rule.
const USUALLY_SAVED: f64 = 0.5;
/// A steered night may take so many times what the job takes by itself: the noise of a quiet machine.
pub const WORSE: f64 = 1.02;
/// Seconds that guesses must have saved for a night to be watched. The kernel's side is loaded while the job runs already;
/// what that costs a job of half a second was not more than this.
const SAVED_S: f64 = 0.05;
/// A share of the job's time that must be saved as well: more than the noise of a quiet machine.
const SAVED_SHARE: f64 = 0.05;
/// So many seconds are worth it whatever their share is.
const SAVED_ANYWAY_S: f64 = 0.3;
/// So many times the job's time is not saved by guesses: a disk with an arm, 8 ms and 100 MB/s, is 200 times as quick in order
/// as page by page, a cloud volume of 1 ms and 250 MB/s 60 times.
const INCREDIBLE: f64 = 200.0;
/// What threads beside each other have saved is believed if it is such a part of the job's time, although it is divided by as many as
/// wait at a time.
const CREDIBLE_SHARE: f64 = 0.5;
/// Nights with guesses before one alone. Where threads compute beside each other it comes at once: what one of them would have waited
/// the others would have had of the processors, which we take from them. `make -j4` of 800 files took 1.2 times as long, 2
/// times on a busy machine, and was said to have saved as much as it took.
const GUESSED: usize = 2;
/// Nights alone of a job that needed all the memory there was, after the first time and after later ones.
const SHORT_PAUSES: [usize; 2] = [7, 31];
/// A night in the middle of which we left took less than this of a night alone: it was worth it all the same.
const WORTH_LEAVING: f64 = 0.9;
/// So much more memory than then is another thing: several times what we take of it.
const MORE_BYTES: u64 = 16 << 20;
/// Nights among which one alone is to compare with.
const CONTROL: usize = 16;
/// A job that has nothing to gain is watched again after so many nights.
const LOOK_AGAIN: usize = 7;
/// Nights that the first, the second and all later pauses take.
const PAUSES: [usize; 5] = [1, 3, 7, 15, 31];
/// A night alone that reads so many times more than the one watched is another kind of night.
const MUCH_MORE: u64 = 2;
/// A night that read less than one part in so many of what another one did had the rest cached.
const CACHED_PART: u64 = 2;
/// Nights by themselves of which the middle one is compared with.
const COMPARED: usize = 5;
/// Bytes below which the reading of a night alone is not looked at.
const FEW_BYTES: u64 = 32 << 20;

/// What to do with a job tonight, and why, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tonight {
    /// Nothing.
    Alone(String),
    /// Watch it.
    Watch(String),
    /// Fetch and evict by what is known.
    Steer(String),
}

/// The exit code with which the job ends most often; that of the last night among equals. `None` of a new job.
#[must_use]
pub fn usual_exit_code(nights: &[Night]) -> Option<u8> {
    let count = |code: u8| nights.iter().filter(|night| night.exit_code == code).count();
    let most = nights.iter().map(|night| count(night.exit_code)).max()?;
    nights.iter().rev().map(|night| night.exit_code).find(|&code| count(code) == most)
}

/// Whether a job waits for storage long enough that fetching ahead could pay; seconds.
#[must_use]
pub fn is_worth_steering(elapsed_s: f64, wait_s: f64) -> bool {
    waits_for(WORTH, elapsed_s, wait_s) || waits_for(WORTH_SHORT, elapsed_s, wait_s)
}

fn waits_for((at_least_s, share): (f64, f64), elapsed_s: f64, wait_s: f64) -> bool {
    let waited = wait_s.min(elapsed_s);
    waited >= at_least_s && waited >= share * elapsed_s
}

/// Whether a job has nothing to gain but what it reads more than once: apart from that it waits for a device that gave no more
/// when it was watched.
#[must_use]
pub fn is_at_full_rate(nights: &[Night]) -> bool {
    nights.iter().rev().find(|night| night.how == How::Watched).is_some_and(|watched| {
        let waited_s = watched.file_wait_s.or(watched.wait_s).unwrap_or(0.0);
        let other_s = watched.at_full_rate_s.map(|full_s| (waited_s - full_s).max(0.0));
        other_s.is_some_and(|other_s| !is_worth_steering(watched.elapsed_s, other_s))
    })
}

/// Decides what to do tonight, with so much memory that can be used.
#[must_use]
pub fn tonight(nights: &[Night], has_recording: bool, usable_bytes: u64) -> Tonight {
    let has_no_room =
        needs_all_memory(nights, usable_bytes).or_else(|| is_to_be_compared(nights, usable_bytes));
    if let Some(why) = has_no_room {
        return Tonight::Alone(why);
    }
    let watched = nights.iter().rev().find(|night| night.how == How::Watched);
    match (without_guesses(nights, has_recording, usable_bytes), watched.and_then(|night| night.saved_s)) {
        (Tonight::Alone(why), Some(saved_s)) if is_worth_guessing(saved_s, watched) => doubt(nights)
            .unwrap_or_else(|| Tonight::Watch(format!("{why}, and guessing has saved {saved_s:.2} s"))),
        (decided, _) => decided,
    }
}

/// Why no process of ours is to be beside the job tonight, if that is so: it needed all the memory there was, there is no more of it,
/// and alone it took no longer.
#[must_use]
pub fn needs_all_memory(nights: &[Night], usable_bytes: u64) -> Option<String> {
    let (at, mib, left) = last_short(nights, usable_bytes)?;
    let alone_s = alone_like(nights, &nights[at])?;
    let why = || format!("it needs all of {mib} MiB of memory for itself; looked at again after {left} more");
    (nights[at].elapsed_s >= WORTH_LEAVING * alone_s).then(why)
}

/// Why the job is to run alone tonight, with only who waits for it, if that is so: as before, and how long it takes alone is not
/// known.
fn is_to_be_compared(nights: &[Night], usable_bytes: u64) -> Option<String> {
    let (at, mib, _) = last_short(nights, usable_bytes)?;
    let why = || format!("it needed all of {mib} MiB of memory, and how long it takes alone is not known");
    alone_like(nights, &nights[at]).is_none().then(why)
}

/// The last night, if we left it for want of memory and are not to come again soon: which one that is, the memory there was,
/// MiB, and the nights that are left of the pause after it. `None` for one that had room while it was not steered.
fn last_short(nights: &[Night], usable_bytes: u64) -> Option<(usize, u64, usize)> {
    let at = nights.iter().rposition(|night| night.how != How::Alone || night.short_bytes.is_some())?;
    let has_room_watched = nights.iter().any(|night| night.how == How::Watched);
    if nights[at].how == How::Steered && has_room_watched {
        return None;
    }
    short_pause(nights, at, usable_bytes).map(|(mib, left)| (at, mib, left))
}

/// How long nights alone took that were like another one, seconds.
fn alone_like(nights: &[Night], other: &Night) -> Option<f64> {
    let is_one = |night: &&Night| {
        night.how == How::Alone
            && night.short_bytes.is_none()
            && night.exit_code == other.exit_code
            && (is_like(night, other.read_bytes) || other.read_bytes < FEW_BYTES)
    };
    middle(nights.iter().rev().filter(is_one).take(COMPARED))
}

/// Why there is no memory for steering tonight, if that is so, and what is known of the nights before.
fn short_of_steering(nights: &[Night], usable_bytes: u64) -> Option<String> {
    let at = nights.iter().rposition(|night| night.how == How::Steered)?;
    let (mib, left) = short_pause(nights, at, usable_bytes)?;
    if by_itself(nights.iter(), nights[at].read_bytes).is_some_and(|plain| nights[at].elapsed_s <= plain) {
        return None;
    }
    Some(format!("steered it needs more than {mib} MiB of memory; paused for {left} more"))
}

/// If the night `at` was short of memory, and there is no more of it: how much it had, MiB, and the nights that are left of the
/// pause after it.
fn short_pause(nights: &[Night], at: usize, usable_bytes: u64) -> Option<(u64, usize)> {
    let short_bytes =
        nights[at].short_bytes.filter(|&short| usable_bytes < short.saturating_add(MORE_BYTES))?;
    let tries = nights[..at].iter().filter(|night| night.short_bytes.is_some()).count();
    let length = SHORT_PAUSES[tries.min(SHORT_PAUSES.len() - 1)];
    let passed = nights[at..].iter().map(|night| 1 + night.left_alone as usize).sum::<usize>() - 1;
    let left = length.checked_sub(passed).filter(|&left| left > 0)?;
    Some((short_bytes >> 20, left))
}

/// What to do tonight with a job for which there is no plan, whatever it waits for, and why not: as with one that has nothing to
/// gain. To watch it would cost something, too.
#[must_use]
pub fn without_plan(nights: &[Night], why: String) -> Tonight {
    let seen = nights.iter().rposition(|night| night.how != How::Alone);
    let alone = nights.len() - seen.map_or(0, |at| at + 1);
    let watched = nights.iter().rev().find(|night| night.how == How::Watched);
    if watched.and_then(|night| night.saved_s).is_some_and(|saved_s| is_worth_guessing(saved_s, watched)) {
        return doubt(nights).unwrap_or(Tonight::Watch(why));
    }
    if alone >= LOOK_AGAIN { Tonight::Watch(why) } else { Tonight::Alone(why) }
}

/// Whether a job for which guesses are said to have saved something had better run alone tonight.
fn doubt(nights: &[Night]) -> Option<Tonight> {
    let usual = usual_exit_code(nights);
    let last = nights.iter().rev().take(CONTROL).filter(|night| Some(night.exit_code) == usual);
    let guessed = || last.clone().filter(|night| night.saved_s.is_some()).take(COMPARED);
    let watched = guessed().next()?;
    let Some(alone_s) = middle(last.clone().filter(|night| night.how == How::Alone).take(COMPARED)) else {
        let is_time =
            watched.computes_beside() || is_hard_to_believe(watched) && guessed().nth(GUESSED - 1).is_some();
        let why = "what guessing has saved is seen beside a night alone";
        return is_time.then(|| Tonight::Alone(why.to_owned()));
    };
    let guessed_s = middle(guessed())?;
    let why = || format!("with what it came to guessed it took {guessed_s:.2} s, by itself {alone_s:.2} s");
    (guessed_s > WORSE * alone_s).then(|| Tonight::Alone(why()))
}

/// Whether what guesses are said to have saved may be none of it: an estimate that is too high, or waits of threads of which others
/// did the work meanwhile.
fn is_hard_to_believe(night: &Night) -> bool {
    let Night { elapsed_s, wait_s, .. } = *night;
    let saved_s = night.saved_s.unwrap_or(0.0);
    let by_clock_s = saved_s / night.threads_waiting.unwrap_or(f64::INFINITY);
    let is_beside = wait_s > Some(elapsed_s) && by_clock_s < CREDIBLE_SHARE * elapsed_s;
    is_beside || saved_s > INCREDIBLE * elapsed_s
}

/// Whether guesses have saved more than it costs to make them.
fn is_worth_guessing(saved_s: f64, watched: Option<&Night>) -> bool {
    let elapsed_s = watched.map_or(f64::INFINITY, |night| night.elapsed_s);
    saved_s >= SAVED_ANYWAY_S || (saved_s >= SAVED_S && saved_s >= SAVED_SHARE * elapsed_s)
}

fn without_guesses(all: &[Night], has_recording: bool, usable_bytes: u64) -> Tonight {
    let usual = usual_exit_code(all);
    let nights: Vec<&Night> = all.iter().filter(|night| Some(night.exit_code) == usual).collect();
    let Some(at) = nights.iter().rposition(|night| night.how == How::Watched).filter(|_| has_recording)
    else {
        return Tonight::Watch("nothing is known of the job yet".to_owned());
    };
    let watched = nights[at];
    let waited = watched.file_wait_s.or(watched.wait_s).unwrap_or(0.0).min(watched.elapsed_s);
    let is_guessed = watched.saved_s.is_some_and(|saved_s| saved_s > waited);
    let idle = (watched.elapsed_s - watched.busy_s.unwrap_or(0.0)).max(0.0);
    let is_enough = |wait_s| match is_guessed {
        true => waits_for(WORTH, watched.elapsed_s, wait_s),
        false => is_worth_steering(watched.elapsed_s, wait_s),
    };
    let pays = USUALLY_SAVED * waited.min(idle) >= taken_s(watched);
    let is_worth = is_enough(waited.min(idle)) && pays;
    if !is_worth {
        let alone = &nights[at + 1..];
        let more =
            |night: &&&Night| night.read_bytes > FEW_BYTES.max(MUCH_MORE.saturating_mul(watched.read_bytes));
        if alone.iter().rev().take(1).any(|night| more(&night)) {
            return Tonight::Watch("it read much more the last time than when it was watched".to_owned());
        }
        if alone.len() >= LOOK_AGAIN {
            return Tonight::Watch(format!("it was not looked at for {} nights", alone.len()));
        }
        let (elapsed, share) = (watched.elapsed_s, 100.0 * waited / watched.elapsed_s.max(1e-9));
        return Tonight::Alone(match watched.wait_s {
            Some(_) => {
                let gain = if is_guessed { "little left" } else { "nothing" };
                let what = if watched.file_wait_s.is_some() { "what it read" } else { "storage" };
                let but = match (is_enough(waited), pays) {
                    (true, false) => "; steering would take as much",
                    (true, true) => "; its processors are busy meanwhile",
                    (false, _) => "",
                };
                format!(
                    "{gain} to gain: of {elapsed:.1} s it waited {waited:.1} s ({share:.0}%) for {what}{but}"
                )
            }
            None => format!("nothing to gain: it was over after {elapsed:.1} s, before it could be watched"),
        });
    }
    if let Some(last) = nights.last().filter(|last| last.how == How::Steered && last.read_bytes > FEW_BYTES)
        && by_itself(nights.iter().copied(), last.read_bytes).is_none()
    {
        return Tonight::Watch("it read much more the last time than on any night by itself".to_owned());
    }
    if let Some(why) = short_of_steering(all, usable_bytes) {
        return Tonight::Alone(why);
    }
    pause(&nights).unwrap_or_else(|| Tonight::Steer(format!("it waits {waited:.1} s for storage")))
}

/// What steering would take of the job's time, seconds.
fn taken_s(night: &Night) -> f64 {
    let files = night.files.unwrap_or(0) as f64;
    TAKEN_S + TAKEN_A_BYTE_S * night.read_bytes as f64 + TAKEN_A_FILE_S * files
}

/// Is steering put off tonight?
fn pause(nights: &[&Night]) -> Option<Tonight> {
    let (mut worse_in_a_row, mut last_worse) = (0, None);
    for (at, night) in nights.iter().enumerate() {
        // What took longer for want of memory says nothing of steering where there is enough.
        if night.how != How::Steered || night.short_bytes.is_some() {
            continue;
        }
        match by_itself(nights[..at].iter().copied(), night.read_bytes) {
            Some(plain) if night.elapsed_s > WORSE * plain => {
                worse_in_a_row += 1;
                last_worse = Some((at, night.elapsed_s, plain));
            }
            _ => (worse_in_a_row, last_worse) = (0, None),
        }
    }
    let (at, steered, plain) = last_worse?;
    let length = PAUSES[worse_in_a_row.min(PAUSES.len()) - 1];
    let passed = nights.len() - 1 - at;
    if passed >= length {
        return None;
    }
    let why = format!(
        "steered it took {steered:.1} s, by itself {plain:.1} s; paused for {} more",
        length - passed
    );
    Some(if passed == 0 { Tonight::Watch(why) } else { Tonight::Alone(why) })
}

/// What the job takes by itself when it has to read so many bytes, in seconds: the middle one of its last nights alone or watched
/// on which at least half as much was read.
pub fn by_itself<'a>(nights: impl DoubleEndedIterator<Item = &'a Night>, read_bytes: u64) -> Option<f64> {
    let is_one = |night: &&Night| night.how != How::Steered && is_like(night, read_bytes);
    middle(nights.rev().filter(is_one).take(COMPARED))
}

/// Was a night one on which about so many bytes had to be read, and not much less as the rest was cached?
fn is_like(night: &Night, read_bytes: u64) -> bool {
    night.read_bytes >= read_bytes / CACHED_PART
}

/// The middle one of the times that these took, seconds.
fn middle<'a>(nights: impl Iterator<Item = &'a Night>) -> Option<f64> {
    let mut times: Vec<f64> = nights.map(|night| night.elapsed_s).collect();
    times.sort_unstable_by(f64::total_cmp);
    // Of two the quicker one: the other may have met with others.
    times.get(times.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn night(how: How, elapsed_s: f64, wait_s: f64) -> Night {
        Night {
            began_s: 0,
            how,
            elapsed_s,
            wait_s: (how != How::Alone).then_some(wait_s),
            file_wait_s: None,
            saved_s: None,
            at_full_rate_s: None,
            threads_waiting: None,
            busy_s: None,
            read_bytes: 100 << 20,
            resident_bytes: 0,
            files: None,
            memory_bytes: None,
            short_bytes: None,
            left_alone: 0,
            exit_code: 0,
            budget_bytes: None,
            prefetched: None,
            predicted: None,
        }
    }

    /// With ample memory.
    fn tonight(nights: &[Night], has_recording: bool) -> Tonight {
        super::tonight(nights, has_recording, u64::MAX)
    }

    #[test]
    fn a_job_that_needs_all_the_memory_there_is_runs_alone_in_it() {
        const HAD: u64 = 72 << 20;
        let with = |nights: &[Night], bytes| kind(super::tonight(nights, true, bytes));
        let short = Night { short_bytes: Some(HAD), ..night(How::Alone, 10.0, 0.0) };
        let mut nights = vec![night(How::Watched, 10.0, 6.0), short.clone()];
        assert_eq!(with(&nights, HAD + MORE_BYTES), How::Steered, "there is more");
        assert_eq!(needs_all_memory(&nights, HAD), None, "not known yet");
        for _ in 0..SHORT_PAUSES[0] {
            assert_eq!(with(&nights, HAD + MORE_BYTES - 1), How::Alone);
            nights.push(night(How::Alone, 10.0, 0.0));
            assert_eq!(needs_all_memory(&nights, HAD).is_some(), nights.len() < 2 + SHORT_PAUSES[0]);
        }
        assert_eq!(with(&nights, HAD), How::Steered, "it may need less now");
        nights.push(short.clone());
        for _ in 0..SHORT_PAUSES[1] {
            assert!(needs_all_memory(&nights, HAD).is_some());
            assert_eq!(with(&nights, HAD), How::Alone);
            nights.last_mut().unwrap().left_alone += 1;
        }
        assert_eq!(with(&nights, HAD), How::Steered);
        nights.push(night(How::Steered, 3.0, 0.0));
        assert_eq!(with(&nights, HAD), How::Steered, "it had room");
        // What little was read then and was cached now makes no other night of it.
        let few = Night { read_bytes: 1 << 20, ..short.clone() };
        let cached = Night { read_bytes: 0, ..night(How::Alone, 10.0, 0.0) };
        assert!(needs_all_memory(&[few, cached.clone()], HAD).is_some());
        assert_eq!(needs_all_memory(&[short.clone(), cached], HAD), None);
        // What was done until then was worth it.
        let mut nights = vec![Night { elapsed_s: 6.0, ..short }];
        assert_eq!(with(&nights, HAD), How::Alone);
        nights.push(night(How::Alone, 10.0, 0.0));
        assert_eq!(with(&nights, HAD), How::Watched);
    }

    #[test]
    fn a_job_that_had_room_until_it_was_steered_is_watched_meanwhile() {
        const HAD: u64 = 64 << 20;
        let with = |nights: &[Night], bytes| kind(super::tonight(nights, true, bytes));
        let watched = || Night { saved_s: Some(4.0), ..night(How::Watched, 4.0, 3.0) };
        let short = || Night { short_bytes: Some(HAD), ..night(How::Steered, 12.0, 0.0) };
        let mut nights = vec![watched(), short()];
        assert_eq!(with(&nights, HAD + MORE_BYTES), How::Steered, "there is more");
        for _ in 0..SHORT_PAUSES[0] {
            assert_eq!(with(&nights, HAD), How::Watched);
            nights.push(watched());
        }
        assert_eq!(with(&nights, HAD), How::Steered, "it may need less now");
        nights.extend([short(), watched()]);
        assert_eq!(with(&nights, HAD), How::Watched);
        nights.push(Night { short_bytes: Some(HAD), ..night(How::Alone, 10.0, 0.0) });
        assert_eq!(with(&nights, HAD), How::Alone, "nor is there room to watch it");
        // Where guesses gain nothing there is no reason to watch it.
        let gains_nothing = [night(How::Watched, 10.0, 6.0), short()];
        assert_eq!(with(&gains_nothing, HAD), How::Alone);
        assert_eq!(with(&[short()], HAD), How::Alone, "nobody knows whether it has room");
    }

    fn kind(tonight: Tonight) -> How {
        match tonight {
            Tonight::Alone(_) => How::Alone,
            Tonight::Watch(_) => How::Watched,
            Tonight::Steer(_) => How::Steered,
        }
    }

    #[test]
    fn first_watched_then_steered() {
        assert_eq!(kind(tonight(&[], false)), How::Watched);
        let watched = [night(How::Watched, 10.0, 6.0)];
        assert_eq!(kind(tonight(&watched, false)), How::Watched, "its recording is gone");
        assert_eq!(tonight(&watched, true), Tonight::Steer("it waits 6.0 s for storage".to_owned()));
    }

    #[test]
    fn a_job_that_does_not_wait_is_left_alone_and_looked_at_again() {
        let mut nights = vec![night(How::Watched, 10.0, 0.3)];
        for _ in 0..LOOK_AGAIN {
            assert_eq!(kind(tonight(&nights, true)), How::Alone);
            nights.push(night(How::Alone, 10.0, 0.0));
        }
        assert_eq!(kind(tonight(&nights, true)), How::Watched);
        assert_eq!(
            kind(tonight(&[night(How::Watched, 0.4, 0.3)], true)),
            How::Steered,
            "it does nothing else"
        );
        assert_eq!(kind(tonight(&[night(How::Watched, 0.6, 0.3)], true)), How::Alone, "half of its time");
        assert_eq!(kind(tonight(&[night(How::Watched, 0.2, 0.2)], true)), How::Alone, "too little");
        let mut more = night(How::Alone, 10.0, 0.0);
        more.read_bytes = 300 << 20;
        assert_eq!(kind(tonight(&[night(How::Watched, 10.0, 0.3), more], true)), How::Watched);
        assert_eq!(kind(tonight(&[night(How::Watched, 100.0, 3.0)], true)), How::Alone, "3% of its time");
        let unseen = Night { wait_s: None, ..night(How::Watched, 0.4, 0.0) };
        let why = "nothing to gain: it was over after 0.4 s, before it could be watched";
        assert_eq!(tonight(&[unseen], true), Tonight::Alone(why.to_owned()));
    }

    #[test]
    fn a_job_that_computes_while_it_waits_is_left_alone() {
        let busy = |busy_s| Night { busy_s: Some(busy_s), ..night(How::Watched, 10.0, 8.0) };
        assert_eq!(kind(tonight(&[busy(5.0)], true)), How::Steered);
        let why =
            "nothing to gain: of 10.0 s it waited 8.0 s (80%) for storage; its processors are busy meanwhile";
        assert_eq!(tonight(&[busy(9.5)], true), Tonight::Alone(why.to_owned()));
        // 10 GB at more than 1 GB/s.
        let fast = Night { read_bytes: 10 << 30, ..night(How::Watched, 10.0, 8.0) };
        let why = "nothing to gain: of 10.0 s it waited 8.0 s (80%) for storage; steering would take as much";
        assert_eq!(tonight(std::slice::from_ref(&fast), true), Tonight::Alone(why.to_owned()));
        assert_eq!(kind(tonight(&[Night { read_bytes: 3 << 30, ..fast.clone() }], true)), How::Steered);
        // 100,000 files, 0.1 ms each.
        let small = Night { read_bytes: 1 << 30, files: Some(100_000), ..fast };
        assert_eq!(tonight(std::slice::from_ref(&small), true), Tonight::Alone(why.to_owned()));
        assert_eq!(kind(tonight(&[Night { files: Some(30_000), ..small }], true)), How::Steered);
    }

    #[test]
    fn a_job_that_guesses_help_is_never_left_alone() {
        let guessed = |saved_s| Night { saved_s: Some(saved_s), ..night(How::Watched, 1.0, 0.2) };
        assert_eq!(kind(tonight(&[guessed(0.04)], true)), How::Alone);
        assert_eq!(kind(tonight(&[guessed(0.06)], true)), How::Watched, "6% of its time");
        let long = |saved_s| Night { elapsed_s: 10.0, ..guessed(saved_s) };
        assert_eq!(kind(tonight(&[long(0.2)], true)), How::Alone, "2% of its time");
        assert_eq!(kind(tonight(&[long(0.4)], true)), How::Watched, "more than it can cost");
        let short = |saved_s| Night { wait_s: Some(0.7), ..guessed(saved_s) };
        assert_eq!(kind(tonight(&[short(0.6)], true)), How::Steered, "there is more to be had");
        assert_eq!(kind(tonight(&[short(0.8)], true)), How::Watched, "what it waits for still is the disk's");
        let why =
            "little left to gain: of 1.0 s it waited 0.2 s (20%) for storage, and guessing has saved 0.80 s";
        assert_eq!(tonight(&[guessed(0.8)], true), Tonight::Watch(why.to_owned()));
        // Steering that loses is put off as ever, and the nights between are watched.
        let mut nights = vec![Night { wait_s: Some(6.0), elapsed_s: 10.0, ..guessed(4.0) }];
        for how in
            [How::Steered, How::Watched, How::Steered, How::Watched, How::Watched, How::Watched, How::Steered]
        {
            assert_eq!(kind(tonight(&nights, true)), how, "after {}", nights.len());
            let elapsed_s = if how == How::Steered { 10.3 } else { 10.0 };
            nights.push(Night { how, elapsed_s, ..nights[0].clone() });
        }
    }

    #[test]
    fn a_job_without_a_plan_is_looked_at_now_and_then() {
        let why = || "there is no memory".to_owned();
        let mut nights = vec![night(How::Watched, 10.0, 6.0)];
        for _ in 0..3 {
            for _ in 0..LOOK_AGAIN {
                assert_eq!(without_plan(&nights, why()), Tonight::Alone(why()));
                nights.push(night(How::Alone, 10.0, 0.0));
            }
            assert_eq!(without_plan(&nights, why()), Tonight::Watch(why()));
            nights.push(night(How::Watched, 10.0, 6.0));
        }
        let steered = [night(How::Watched, 10.0, 6.0), night(How::Steered, 5.0, 1.0)];
        assert_eq!(kind(without_plan(&steered, why())), How::Alone, "there was a plan last night");
        let guessed = Night { saved_s: Some(2.0), ..night(How::Watched, 10.0, 6.0) };
        assert_eq!(kind(without_plan(&[guessed], why())), How::Watched);
    }

    #[test]
    fn what_its_device_does_not_give_faster_is_no_gain() {
        let full = |at_full_rate_s| Night { at_full_rate_s, ..night(How::Watched, 10.0, 8.0) };
        assert!(is_at_full_rate(&[full(Some(7.9))]));
        assert!(!is_at_full_rate(&[full(Some(6.0))]), "two seconds are left");
        assert!(!is_at_full_rate(&[full(None)]) && !is_at_full_rate(&[]), "it is not known");
        let later = [full(Some(7.9)), night(How::Steered, 10.0, 8.0)];
        assert!(is_at_full_rate(&later), "the last night that was watched tells it");
    }

    #[test]
    fn waits_for_other_things_than_files_are_nothing_to_steer() {
        let night = Night { file_wait_s: Some(0.2), ..night(How::Watched, 10.0, 6.0) };
        let why = "nothing to gain: of 10.0 s it waited 0.2 s (2%) for what it read";
        assert_eq!(tonight(std::slice::from_ref(&night), true), Tonight::Alone(why.to_owned()));
        let guessed = Night { saved_s: Some(3.0), ..night.clone() };
        assert_eq!(kind(tonight(&[guessed], true)), How::Watched);
        let files = Night { file_wait_s: Some(5.0), ..night };
        assert_eq!(tonight(&[files], true), Tonight::Steer("it waits 5.0 s for storage".to_owned()));
    }

    #[test]
    fn what_threads_beside_each_other_have_saved_is_compared_with_a_night_alone() {
        let guessed = |elapsed_s| Night { saved_s: Some(250.0), ..night(How::Watched, elapsed_s, 0.1) };
        for (elapsed_s, then) in [(1.05, How::Alone), (0.9, How::Watched), (1.01, How::Watched)] {
            let mut nights = vec![guessed(elapsed_s)];
            assert_eq!(kind(tonight(&nights, true)), How::Watched, "the second night");
            nights.push(guessed(elapsed_s));
            assert_eq!(kind(tonight(&nights, true)), How::Alone, "to compare with");
            nights.push(night(How::Alone, 1.0, 0.0));
            assert_eq!(kind(tonight(&nights, true)), then, "{elapsed_s}");
        }
        // One that is good is compared anew in time, one that is not is looked at again.
        let (mut good, mut bad) = (vec![guessed(0.9)], vec![guessed(1.1)]);
        let next = |nights: &mut Vec<Night>, guessed_s| {
            let how = kind(tonight(nights, true));
            nights.push(if how == How::Watched { guessed(guessed_s) } else { night(how, 1.0, 0.0) });
            how == How::Alone
        };
        let alone = |nights: &mut Vec<Night>, guessed_s| (0..48).filter(|_| next(nights, guessed_s)).count();
        assert_eq!(alone(&mut good, 0.9), 3);
        assert_eq!(alone(&mut bad, 1.1), 42);
        let threads = Night { saved_s: Some(0.5), file_wait_s: Some(0.0), ..night(How::Watched, 1.0, 1.1) };
        assert_eq!(
            kind(tonight(&[threads.clone(), threads.clone()], true)),
            How::Alone,
            "they wait beside each other"
        );
        let some = |number| Night { saved_s: Some(2.0), threads_waiting: Some(number), ..threads.clone() };
        assert_eq!(kind(tonight(&[some(4.0), some(4.0)], true)), How::Watched, "each half of its time");
        assert_eq!(kind(tonight(&[some(4.1), some(4.1)], true)), How::Alone);
        let busy = Night { busy_s: Some(1.1), ..guessed(1.0) };
        assert_eq!(kind(tonight(&[busy], true)), How::Alone, "they compute beside each other");
        let one = Night { saved_s: Some(3.5), ..night(How::Watched, 1.0, 0.3) };
        assert_eq!(
            kind(tonight(&[one.clone(), one], true)),
            How::Watched,
            "its waits had been most of its time"
        );
    }

    #[test]
    fn steering_that_loses_is_put_off_for_longer_each_time() {
        let mut nights = vec![night(How::Watched, 10.0, 6.0)];
        let mut pauses = Vec::new();
        for _ in 0..6 {
            assert_eq!(kind(tonight(&nights, true)), How::Steered);
            nights.push(night(How::Steered, 10.3, 6.0));
            let mut kinds = Vec::new();
            while kind(tonight(&nights, true)) != How::Steered {
                let how = kind(tonight(&nights, true));
                kinds.push(how);
                nights.push(night(how, 10.0, 6.0));
            }
            assert_eq!(kinds[0], How::Watched);
            assert!(kinds[1..].iter().all(|how| *how == How::Alone));
            pauses.push(kinds.len());
        }
        assert_eq!(pauses, [1, 3, 7, 15, 31, 31]);
        nights.push(night(How::Steered, 5.0, 1.0));
        nights.push(night(How::Steered, 11.0, 6.0));
        assert!(matches!(tonight(&nights, true), Tonight::Watch(why) if why.ends_with("paused for 1 more")));
    }

    #[test]
    fn a_night_on_which_most_was_cached_is_nothing_to_compare_with() {
        // Somebody has tried it twice in a row, and at night all of it has to be read.
        let warm = Night { read_bytes: 40 << 20, ..night(How::Watched, 2.0, 1.5) };
        let mut nights = vec![warm, night(How::Steered, 5.0, 2.0)];
        let why = "it read much more the last time than on any night by itself";
        assert_eq!(tonight(&nights, true), Tonight::Watch(why.to_owned()));
        assert_eq!(by_itself(nights.iter(), 100 << 20), None);
        nights.push(night(How::Watched, 10.0, 8.0));
        assert_eq!(kind(tonight(&nights, true)), How::Steered, "5 of 10 s");
        assert_eq!(by_itself(nights.iter(), 100 << 20), Some(10.0));
        assert_eq!(by_itself(nights.iter(), 0), Some(2.0), "the quicker one of two");
        // What steering reads in vain is no such reason, unless it is as much again.
        for (more, how) in [(190, How::Steered), (210, How::Watched)] {
            nights.push(Night { read_bytes: more << 20, ..night(How::Steered, 5.0, 2.0) });
            assert_eq!(kind(tonight(&nights, true)), how, "{more} MiB");
        }
    }

    #[test]
    fn nights_that_ended_otherwise_do_not_count() {
        let mut failed = night(How::Steered, 30.0, 6.0);
        failed.exit_code = 1;
        let nights = [night(How::Watched, 10.0, 6.0), night(How::Steered, 5.0, 1.0), failed.clone()];
        assert_eq!(usual_exit_code(&nights), Some(0));
        assert_eq!(kind(tonight(&nights, true)), How::Steered);
        assert_eq!(usual_exit_code(&[night(How::Watched, 1.0, 0.0), failed]), Some(1), "the last of equals");
        assert_eq!(usual_exit_code(&[]), None);
    }
}
