//! What may wait for somebody, done by threads of its own, for each user in order.
//!
//! Two things that the loop needs of a file wait for whoever writes to it. To ask where its blocks are waits for the lock
//! of the inode, which write(2) holds from its beginning to its end: 20 s for a gigabyte on a busy disk, and for ever when
//! what is to be written lies in memory that never comes. To close a deleted file as the last one who has it open
//! frees its blocks.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use foretell_door::{ByUser, Shape};

type Job = Box<dyn FnOnce() + Send>;

/// The threads that do it: those that ask, of which the loop waits for some time, and others that close.
const ASKING: Shape = Shape {
    name: "foretell-ask",
    threads: 16,
    // One at work and one for everybody else: else each question would start a thread.
    spare: 2,
    stack_bytes: 256 << 10,
    lane_jobs: 16,
    all_jobs: 256,
};
/// Nothing is given back of what is to be closed: that would be closed by the loop.
const CLOSING: Shape = Shape { name: "foretell-drop", lane_jobs: usize::MAX, all_jobs: usize::MAX, ..ASKING };
/// Deleted files of a user's that wait to be closed; meanwhile none is opened for that user.
const TO_CLOSE: usize = 1 << 13;
/// Those that open what clients have named, of whom each names one file at a time.
pub(crate) const OPENING: Shape =
    Shape { name: "foretell-open", lane_jobs: 1 << 10, all_jobs: 1 << 12, ..ASKING };
/// `None` inside when no thread is to be had.
type Threads = OnceLock<Option<ByUser<Job>>>;
static ASKING_THREADS: Threads = OnceLock::new();
static OPENING_THREADS: Threads = OnceLock::new();
static CLOSING_THREADS: Threads = OnceLock::new();
/// Users whom the loop has waited for in vain, and whether that is over. Few: there is a thread for each.
static LATE: Mutex<Vec<(u32, Arc<AtomicBool>)>> = Mutex::new(Vec::new());

fn push(threads: &Threads, shape: Shape, user: u32, job: Job) -> Result<(), Job> {
    match threads.get_or_init(|| ByUser::start(shape, |job: Job| job()).ok()) {
        Some(threads) => threads.push(user, job),
        None => Err(job),
    }
}

/// Drops our hold on a file; if it is the last one, that may take as long as the file is large.
pub(crate) fn close(user: u32, file: Arc<File>) {
    match CLOSING_THREADS.get_or_init(|| ByUser::start(CLOSING, |job: Job| job()).ok()) {
        Some(threads) => threads.hand_over(user, Box::new(move || drop(file))),
        None => drop(file),
    }
}

/// Whether so many deleted files of a user's wait to be closed that no further one is to be opened. Not known while a thread
/// has the books, which is not for long.
pub(crate) fn is_behind(user: u32) -> bool {
    let Some(Some(threads)) = CLOSING_THREADS.get() else { return false };
    let behind = threads.busy(|waiting, _| waiting >= TO_CLOSE);
    behind.is_some_and(|(users, _)| users.contains(&user))
}

/// Says that a question is over, however it ends.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Something that was asked for a user, and is given up after some time.
#[derive(Debug)]
pub(crate) struct Question<T> {
    user: u32,
    ends: Instant,
    /// None when it was not asked: something that was asked for the same user before takes longer than it may.
    answered: Option<Receiver<T>>,
    is_over: Arc<AtomicBool>,
    answer: Option<T>,
}

impl<T: Send + 'static> Question<T> {
    /// Asks; the answer has some time.
    pub(crate) fn new(
        user: u32,
        patience: Duration,
        ask: impl FnOnce() -> T + Send + 'static,
    ) -> Question<T> {
        let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain(|(_, is_over)| !is_over.load(Ordering::Acquire));
        let is_late = late.iter().any(|(of, _)| *of == user);
        drop(late);
        if is_late {
            let is_over = Arc::new(AtomicBool::new(true));
            return Question { user, ends: Instant::now(), answered: None, is_over, answer: None };
        }
        Question::of((&ASKING_THREADS, ASKING), user, patience, ask)
    }

    /// Has something opened that a client has named: not behind what waits for those who write to a file.
    pub(crate) fn opening(
        user: u32,
        patience: Duration,
        open: impl FnOnce() -> T + Send + 'static,
    ) -> Question<T> {
        Question::of((&OPENING_THREADS, OPENING), user, patience, open)
    }

    fn of(
        (threads, shape): (&Threads, Shape),
        user: u32,
        patience: Duration,
        ask: impl FnOnce() -> T + Send + 'static,
    ) -> Question<T> {
        let (answer, answered) = sync_channel(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Over(Arc::clone(&is_over));
        let job = move || {
            let _over = over;
            let _ = answer.try_send(ask());
        };
        let answered = push(threads, shape, user, Box::new(job)).is_ok().then_some(answered);
        Question { user, ends: Instant::now() + patience, answered, is_over, answer: None }
    }

    /// Is there an answer, or will there be none? Waits for it, `most` at most.
    pub(crate) fn is_answered(&mut self, most: Duration) -> bool {
        let Some(answered) = &self.answered else { return true };
        let left = self.ends.saturating_duration_since(Instant::now());
        match answered.recv_timeout(most.min(left)) {
            Ok(answer) => self.answer = Some(answer),
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) if Instant::now() < self.ends => return false,
            Err(RecvTimeoutError::Timeout) => {
                let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
                late.push((self.user, Arc::clone(&self.is_over)));
            }
        }
        self.answered = None;
        true
    }

    /// The answer, if there is one by now.
    pub(crate) fn take_answer(&mut self) -> Option<T> {
        self.is_answered(Duration::ZERO);
        self.answer.take()
    }
}

/// What `ask` finds out within some time; `None` when it takes longer, or something that was asked for the same user
/// before still does.
pub(crate) fn ask<T: Send + 'static>(
    user: u32,
    patience: Duration,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let mut question = Question::new(user, patience, ask);
    question.is_answered(patience);
    question.take_answer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_testkit::sockets::lingering;

    #[test]
    fn the_loop_closes_nothing_itself_however_much_waits() {
        use std::os::fd::OwnedFd;
        const USER: u32 = 4711;
        let (first, first_peer) = lingering();
        let (last, last_peer) = lingering();
        let small = Arc::new(tempfile::tempfile().unwrap());
        let (done, is_done) = sync_channel(1);
        std::thread::spawn(move || {
            let descriptor = |socket| Arc::new(File::from(OwnedFd::from(socket)));
            close(USER, descriptor(first));
            (0..2 * TO_CLOSE + 10).for_each(|_| close(USER, Arc::clone(&small)));
            close(USER, descriptor(last));
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(60)).expect("it waits for what lingers");
        let until = |behind: bool| {
            let start = Instant::now();
            while is_behind(USER) != behind {
                assert!(start.elapsed() < Duration::from_secs(60), "{behind}");
                std::thread::yield_now();
            }
        };
        until(true);
        assert!(!is_behind(USER + 1));
        drop((first_peer, last_peer));
        until(false);
    }

    #[test]
    fn who_does_not_answer_is_not_asked_again_and_others_are() {
        const LONG: Duration = Duration::from_secs(60);
        let (go, waits) = sync_channel::<()>(0);
        let never = move || waits.recv().is_err();
        assert_eq!(ask(71_001, Duration::from_millis(1), never), None);
        assert_eq!(ask(71_001, LONG, || 5), None, "at once");
        assert_eq!(ask(71_002, LONG, || 6), Some(6));
        drop(go);
        let mut answer = None;
        while answer.is_none() {
            answer = ask(71_001, LONG, || 7);
        }
        assert_eq!(answer, Some(7));
    }

    #[test]
    fn an_answer_is_waited_for_a_bit_at_a_time_and_not_for_ever() {
        let (go, waits) = sync_channel::<()>(0);
        let mut question = Question::new(71_005, Duration::from_secs(60), move || waits.recv().is_err());
        assert!(!question.is_answered(Duration::from_millis(1)), "nobody has said anything");
        drop(go);
        while !question.is_answered(Duration::from_millis(1)) {}
        assert_eq!(question.take_answer(), Some(true));
        let (go, waits) = sync_channel::<()>(0);
        let mut question = Question::new(71_006, Duration::ZERO, move || waits.recv().is_err());
        assert!(question.is_answered(Duration::from_secs(60)), "there is no time for it");
        assert_eq!(question.take_answer(), None);
        drop(go);
    }

    #[test]
    fn who_does_not_ask_any_more_is_not_waited_for() {
        let answer: Option<u8> = ask(71_004, Duration::from_secs(60), || panic!("on purpose"));
        assert_eq!(answer, None);
        let mut answer = None;
        while answer.is_none() {
            answer = ask(71_004, Duration::from_secs(60), || 8);
        }
        assert_eq!(answer, Some(8));
    }

    #[test]
    fn a_file_is_closed() {
        let (mut end, other) = std::io::pipe().unwrap();
        let other = File::from(std::os::fd::OwnedFd::from(other));
        close(71_003, Arc::new(other));
        assert_eq!(std::io::Read::read(&mut end, &mut [0]).unwrap(), 0);
    }
}
