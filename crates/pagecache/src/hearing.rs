//! What signals the two processes of a run hear (`keeper.rs`), each noted where the other one can read it.
//!
//! A signal to the process group, or to each process of a control group, comes to the keeper, to the worker and to the job. One
//! that is sent to the number that is known comes to the keeper alone. Only who knows what both have heard can tell them apart.
//! So both note each signal in a page of memory that they share, made before they became two:
//!
//! ```text
//!  keeper: handler ──► ring ─┐
//!                            ├──► bell ──► the keeper's thread, which compares
//!  worker: handler ──► ring ─┘
//! ```
//!
//! The handler makes plain system calls only, allocates nothing and waits for nobody, so neither of the two needs a thread or a
//! descriptor to hear. It is never taken back. Each ring has a limit; what does not fit is lost, as the kernel loses a second
//! signal of a kind.
//!
//! A process that we fork has the handler until it executes a program. What it hears until then is not ours, and is told to the
//! program (`hear_missed`).

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};
use std::time::Duration;

use crate::inherited;
use crate::stopping::{self, Stopping};
pub use crate::timers::now_ns;

/// Signals that have been heard and not been read yet, in each of the two processes.
const SLOTS: usize = 128;
/// No process or descriptor.
const NONE: i32 = -1;

/// A signal that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Its number.
    pub signal: i32,
    /// Where it is from (`si_code`, sigaction(2)).
    pub code: i32,
    /// The process that has sent it; zero if none has, or it lies in another namespace.
    pub sender: i32,
    /// When the handler was called, by the monotonic clock.
    pub at_ns: u64,
}

impl Heard {
    /// Has a process sent it? Otherwise the kernel has: it was typed, or a timer has run out.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        ![libc::SI_KERNEL, libc::SI_TIMER].contains(&self.code)
    }
}

/// Who has heard it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ear {
    /// The process that stays, whose number is known.
    Keeper = 0,
    /// The process that does the work.
    Worker = 1,
}

/// A note. All zeroes are an empty one.
#[repr(C)]
struct Slot {
    /// One more than the place in the order of all notes, when the note is complete.
    serial: AtomicU32,
    signal: AtomicI32,
    code: AtomicI32,
    sender: AtomicI32,
    at_ns: AtomicU64,
}

#[repr(C)]
struct Ring {
    /// Notes that were begun, and those that were read.
    begun: AtomicU32,
    read: AtomicU32,
    slots: [Slot; SLOTS],
}

/// What both processes see.
#[repr(C)]
struct Page {
    /// Changes with each note: a futex(2).
    bell: AtomicU32,
    /// The process that does the work, when it hears; and bit `n - 1` for each signal `n` that it hears.
    worker: AtomicU32,
    heard_by_worker: AtomicU64,
    /// When the job has begun, or was ready to; zero before.
    begun_ns: AtomicU64,
    stopping: Stopping,
    rings: [Ring; 2],
}

impl Ring {
    const fn new() -> Ring {
        Ring {
            begun: AtomicU32::new(0),
            read: AtomicU32::new(0),
            slots: [const {
                Slot {
                    serial: AtomicU32::new(0),
                    signal: AtomicI32::new(0),
                    code: AtomicI32::new(0),
                    sender: AtomicI32::new(0),
                    at_ns: AtomicU64::new(0),
                }
            }; SLOTS],
        }
    }

    /// Called by the handler, in several threads at a time.
    fn write(&self, heard: Heard) {
        let next = |begun: u32| {
            let is_full = begun.wrapping_sub(self.read.load(Acquire)) as usize >= SLOTS;
            (!is_full).then(|| begun.wrapping_add(1))
        };
        let Ok(place) = self.begun.fetch_update(AcqRel, Acquire, next) else { return };
        let slot = &self.slots[place as usize % SLOTS];
        slot.signal.store(heard.signal, Relaxed);
        slot.code.store(heard.code, Relaxed);
        slot.sender.store(heard.sender, Relaxed);
        slot.at_ns.store(heard.at_ns, Relaxed);
        slot.serial.store(place.wrapping_add(1), Release);
    }

    /// Called by one thread only.
    fn read(&self) -> Option<Heard> {
        let place = self.read.load(Relaxed);
        let slot = &self.slots[place as usize % SLOTS];
        if slot.serial.load(Acquire) != place.wrapping_add(1) {
            return None;
        }
        let heard = Heard {
            signal: slot.signal.load(Relaxed),
            code: slot.code.load(Relaxed),
            sender: slot.sender.load(Relaxed),
            at_ns: slot.at_ns.load(Relaxed),
        };
        self.read.store(place.wrapping_add(1), Release);
        Some(heard)
    }
}

/// Where there is one process only, or no memory that two could share.
static OF_ONE: Page = Page {
    bell: AtomicU32::new(0),
    worker: AtomicU32::new(0),
    heard_by_worker: AtomicU64::new(0),
    begun_ns: AtomicU64::new(0),
    stopping: Stopping::new(),
    rings: [Ring::new(), Ring::new()],
};

/// What the handler needs: the page, which of the rings, whose handler it is, and what it did not note in a copy of ours.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());
static RING: AtomicU32 = AtomicU32::new(0);
static OWN: AtomicI32 = AtomicI32::new(NONE);
static MISSED: AtomicU64 = AtomicU64::new(0);
/// The job, where there is no thread that could pass anything on to it.
static AT_ONCE: AtomicI32 = AtomicI32::new(NONE);
/// Bit `n - 1` is set when signal `n` has a handler of ours.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// The page, as one of the processes has it.
#[derive(Debug, Clone, Copy)]
pub struct Hearing(&'static Page);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("bell", &self.bell).finish_non_exhaustive()
    }
}

impl Hearing {
    /// Of a process that hears by itself.
    #[must_use]
    pub fn of_one() -> Hearing {
        Hearing(&OF_ONE)
    }

    /// To be shared with processes that are forked. Where there is no memory for it each hears by itself.
    #[must_use]
    pub fn of_two() -> Hearing {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: fresh memory of ours, all zeroes, which is a page without notes; it is never unmapped, and has the alignment
        // of pages.
        let page = unsafe {
            let page = libc::mmap(std::ptr::null_mut(), size_of::<Page>(), protection, flags, -1, 0);
            if page == libc::MAP_FAILED { None } else { page.cast::<Page>().as_ref() }
        };
        page.map_or_else(Hearing::of_one, Hearing)
    }

    /// From now on this process notes these signals in its ring, in place of what they did.
    ///
    /// # Errors
    /// There is no such signal.
    pub fn hear(self, ear: Ear, signals: &[i32]) -> io::Result<()> {
        PAGE.store(std::ptr::from_ref(self.0).cast_mut(), SeqCst);
        RING.store(ear as u32, SeqCst);
        // SAFETY: the call takes and writes nothing.
        OWN.store(unsafe { libc::getpid() }, SeqCst);
        for signal in signals {
            // SAFETY: the structure may be all zeroes, is filled here, and outlives the call. The handler is one for `SA_SIGINFO`,
            // and makes plain system calls only.
            let done = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = note as *const () as usize;
                // What the program does meanwhile goes on; and no handler comes between another one's steps.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
                libc::sigfillset(&raw mut action.sa_mask);
                libc::sigaction(*signal, &raw const action, std::ptr::null_mut())
            };
            if done != 0 {
                return Err(io::Error::last_os_error());
            }
            CAUGHT.fetch_or(bit(*signal), SeqCst);
        }
        if ear == Ear::Worker {
            self.0.heard_by_worker.store(CAUGHT.load(SeqCst), SeqCst);
            self.0.worker.store(std::process::id(), SeqCst);
        }
        Ok(())
    }

    /// This process does on these signals what it did before: the default action.
    pub fn hear_no_more(self, signals: &[i32]) {
        let heard: Vec<i32> =
            signals.iter().copied().filter(|signal| CAUGHT.load(SeqCst) & bit(*signal) != 0).collect();
        for signal in &heard {
            CAUGHT.fetch_and(!bit(*signal), SeqCst);
            // What came while it was blocked is forgotten: the job has had it. SAFETY: neither action calls anything of ours.
            unsafe {
                libc::signal(*signal, libc::SIG_IGN);
                libc::signal(*signal, libc::SIG_DFL);
            }
        }
        let blocked = inherited::blocked_set();
        unblock(&heard.into_iter().filter(|signal| blocked & bit(*signal) == 0).collect::<Vec<_>>());
    }

    /// These signals it does not hear after all: they are blocked, and there is no thread that could have them otherwise.
    pub fn miss(self, signals: &[i32]) {
        let missed = signals.iter().fold(0, |missed, signal| missed | bit(*signal));
        self.0.heard_by_worker.fetch_and(!missed, SeqCst);
    }

    /// Says of the job, a child of this process, when it stops and goes on (`stopping.rs`). `keeper` is the process that is to do so,
    /// too, if it is another one.
    pub fn tell_stops(self, job: u32, keeper: Option<u32>) {
        stopping::tell(&self.0.stopping, job, keeper, move || self.ring());
    }

    /// Stops this process if the job has stopped since `seen`, until it is continued; changes `seen`. Whether it has. Of one thread
    /// only, which [`Hearing::wait`] wakes.
    pub fn stop_with_job(self, seen: &mut u32) -> bool {
        self.0.stopping.follow(seen)
    }

    /// The process that does the work, once it hears.
    #[must_use]
    pub fn worker(self) -> Option<u32> {
        Some(self.0.worker.load(SeqCst)).filter(|worker| *worker != 0)
    }

    /// The job begins when it is let go, or has begun: it hears signals itself from now on. Further calls change nothing.
    pub fn begun(self) {
        let _ = self.0.begun_ns.compare_exchange(0, now_ns(), SeqCst, SeqCst);
    }

    /// Has it heard what came at a time?
    #[must_use]
    pub fn has_begun(self, at_ns: u64) -> bool {
        let begun_ns = self.0.begun_ns.load(SeqCst);
        begun_ns != 0 && begun_ns <= at_ns
    }

    /// Which signals wait to be heard by one of the processes: they have reached it. Bit `n - 1` is set for signal `n` (`ShdPnd`,
    /// proc_pid_status(5)). None of a process that has ended.
    #[must_use]
    pub fn waiting_for(self, ear: Ear) -> u64 {
        match ear {
            Ear::Keeper => set_of(Some(std::process::id()), "ShdPnd:") & CAUGHT.load(SeqCst),
            Ear::Worker => set_of(self.worker(), "ShdPnd:") & self.0.heard_by_worker.load(SeqCst),
        }
    }

    /// Has the process that does the work begun to note a signal? It waits there no more, and it may be a while until the note is
    /// written: until there is a processor for it, or the page that the handler lies in. Meanwhile all are blocked (`SigBlk`) in the
    /// thread that has it, which is the first one unless that has others to handle.
    #[must_use]
    pub fn is_being_noted(self) -> bool {
        let heard = self.0.heard_by_worker.load(SeqCst) & !inherited::blocked_set();
        heard != 0 && set_of(self.worker(), "SigBlk:") & heard == heard
    }

    /// The oldest signal that one of the processes has heard, once. Of one thread only.
    #[must_use]
    pub fn next(self, ear: Ear) -> Option<Heard> {
        self.0.rings[ear as usize].read()
    }

    /// What [`Hearing::wait`] compares: to be taken before the rings are read.
    #[must_use]
    pub fn bell(self) -> u32 {
        self.0.bell.load(SeqCst)
    }

    /// Wakes who waits.
    pub fn ring(self) {
        self.0.ring();
    }

    /// Waits until something is heard that came after `bell`, or for a time. May return without a reason.
    pub fn wait(self, bell: u32, time: Option<Duration>) {
        let time = time.map(|time| libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let limit = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word is there for ever, and the time outlives the call.
        unsafe { libc::syscall(libc::SYS_futex, self.0.bell.as_ptr(), libc::FUTEX_WAIT, bell, limit) };
    }

    /// Where no thread is to be had: the handler passes on what is sent to this process, to the job behind a pidfd. What has
    /// come before is passed on now.
    pub fn pass_on_at_once(self, job: OwnedFd) {
        let job = job.into_raw_fd();
        AT_ONCE.store(job, SeqCst);
        while let Some(heard) = self.next(Ear::Keeper) {
            if heard.is_sent() {
                send(job, heard.signal);
            }
        }
    }
}

impl Page {
    fn ring(&self) {
        self.bell.fetch_add(1, SeqCst);
        // SAFETY: the word is there for ever.
        unsafe { libc::syscall(libc::SYS_futex, self.bell.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

/// Makes plain system calls only.
fn send(job: libc::c_int, signal: i32) {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: no memory is involved: without particulars the kernel makes them up.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, job, signal, nothing, 0_u32) };
}

/// The handler.
extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: `errno` is this thread's own; the kernel hands in particulars, of which those that are read are there for their
    // code, and what this thread goes on with; the page is there for ever.
    unsafe {
        let errno = *libc::__errno_location();
        let own = libc::getpid();
        if own == OWN.load(SeqCst) {
            let code = (*info).si_code;
            let has_sender = [libc::SI_USER, libc::SI_QUEUE, libc::SI_TKILL, libc::SI_MESGQ].contains(&code);
            let sender = if has_sender { (*info).si_pid() } else { 0 };
            // Written to a terminal that takes nothing in the background (stty tostop): the call begins anew, and would do so for
            // ever. Where the signal is blocked it is carried out (tty_ioctl(4)).
            if signal == libc::SIGTTOU && !has_sender {
                libc::sigaddset(&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask, signal);
            }
            // About something that we did: a pipe of ours that broke.
            if sender != own {
                heard(Heard { signal, code, sender, at_ns: now_ns() });
            }
        } else {
            MISSED.fetch_or(bit(signal), SeqCst);
        }
        *libc::__errno_location() = errno;
    }
}

fn heard(heard: Heard) {
    let at_once = AT_ONCE.load(SeqCst);
    if at_once != NONE {
        if heard.is_sent() {
            send(at_once, heard.signal);
        }
        return;
    }
    // SAFETY: null, or there for ever.
    let Some(page) = (unsafe { PAGE.load(SeqCst).as_ref() }) else { return };
    if let Some(ring) = page.rings.get(RING.load(SeqCst) as usize) {
        ring.write(heard);
        page.ring();
    }
}

/// A set of signals of a process (proc_pid_status(5)), bit `n - 1` for signal `n`; none of one that has ended.
fn set_of(process: Option<u32>, name: &str) -> u64 {
    let status = process.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let status = status.unwrap_or_default();
    let line = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if line("State:").is_none_or(|state| state.starts_with(['Z', 'X'])) {
        return 0;
    }
    line(name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
}

fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0)
}

/// In a process that was forked and is about to execute a program: it hears by itself from now on. Makes plain system calls only.
pub(crate) fn be_deaf() {
    for signal in of_set(CAUGHT.load(SeqCst)) {
        // SAFETY: the default action calls nothing of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The same process hears what came between these two. Makes plain system calls only.
pub(crate) fn hear_missed() {
    for signal in of_set(MISSED.load(SeqCst)) {
        // SAFETY: no memory is involved.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
}

fn of_set(signals: u64) -> impl Iterator<Item = i32> {
    (1..=64).filter(move |signal| signals & bit(*signal) != 0)
}

/// This thread, and those that it starts, hear these signals, also if they were blocked when this process was started.
pub fn unblock(signals: &[i32]) {
    // SAFETY: the set may be all zeroes before it is made empty, and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard_as(signal: i32) -> Heard {
        Heard { signal, code: libc::SI_USER, sender: 1, at_ns: 1 }
    }

    #[test]
    fn what_is_heard_is_read_in_order_and_what_does_not_fit_is_lost() {
        let ring = Ring::new();
        for round in 0..3 {
            for signal in 0..SLOTS as i32 + 5 {
                ring.write(heard_as(signal));
            }
            for signal in 0..SLOTS as i32 {
                assert_eq!(ring.read(), Some(heard_as(signal)), "{round}");
            }
            assert_eq!(ring.read(), None, "{round}");
        }
    }

    #[test]
    fn a_process_reads_what_another_one_has_heard() {
        let hearing = Hearing::of_two();
        // SAFETY: the child makes plain system calls only, and ends without running anything of the test's.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                let heard = hearing.hear(Ear::Worker, &[libc::SIGUSR2]).is_ok();
                while heard && libc::usleep(1_000_000) == 0 {}
                libc::_exit(0)
            }
            child
        };
        let bell = hearing.bell();
        let is_caught = || {
            let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() & bit(libc::SIGUSR2) != 0
        };
        while !is_caught() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: no memory is involved.
        unsafe { libc::kill(child, libc::SIGUSR2) };
        let note = loop {
            if let Some(note) = hearing.next(Ear::Worker) {
                break note;
            }
            hearing.wait(bell, Some(Duration::from_secs(1)));
        };
        assert_eq!(note.signal, libc::SIGUSR2);
        assert_eq!(note.sender.cast_unsigned(), std::process::id());
        assert!(note.is_sent() && note.at_ns <= now_ns());
        assert_eq!(hearing.next(Ear::Worker), None);
        let mut status = 0;
        // SAFETY: the number is valid for writes.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    }
}
