//! Whatever happens to us, somebody of ours stays with the program: `foretell run` and `foretell learn` become two processes
//! before they do anything (`foretell_pagecache::keeper`). Here is what the two do: one stays, the other one works.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use foretell_learn::{How, memory};
use foretell_pagecache::Spare;
use foretell_pagecache::hearing::Hearing;
use foretell_pagecache::keeper::{self, Follow, Kept, LastWords, Lost, Split, Worker};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::program::{NotRun, Program, become_program, exit_code};
use crate::signals::{self, Caught};
use crate::terminal::{warn, with_causes};

/// signal(7).
const SIGKILL: i32 = 9;
/// With less memory than this the kernel may have to end somebody before it has back what we had.
const LITTLE_BYTES: u64 = 256 << 20;
/// Observer and plane are there after the first of these times, on a busy machine after the second.
const BEGINNING: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

/// What a worker did that leaves: their numbers here are told to who stays.
const HOWS: [How; 3] = [How::Alone, How::Watched, How::Steered];

/// What of us goes on.
#[derive(Debug)]
pub(crate) enum Role {
    /// This process does the work.
    Work(Line),
    /// The program has been run, and ended with this exit code.
    Ran(u8),
    /// Nothing can be done for the program, which has not begun.
    Alone(Alone),
    /// The program needs the memory, and who worked has left.
    Left(Left),
}

/// A program that needs the memory which we took, in the process that has stayed with it.
#[derive(Debug)]
pub(crate) struct Left {
    /// How that was seen.
    pub(crate) why: String,
    /// What was done for it until then.
    pub(crate) did: How,
    /// Its exit code, if it has run.
    code: Option<u8>,
    /// The signals that are meant for it, if it has not.
    caught: Option<Caught>,
}

/// Why nothing can be done for a program.
#[derive(Debug)]
pub(crate) struct Alone {
    /// In words.
    pub(crate) why: String,
    /// The signals that are meant for it.
    pub(crate) caught: Option<Caught>,
}

/// Becomes two processes, one of which stays with the program if the other is killed. To be called before there are threads.
#[must_use]
pub(crate) fn split() -> Role {
    let hearing = Hearing::of_two();
    let mut follower = Follower { hearing, caught: None };
    let kept = match keeper::split(&mut follower) {
        Ok(Split::Worker(worker)) => {
            foretelld::be_known_as(worker.keeper());
            let room_bytes = memory::free_bytes().unwrap_or(u64::MAX);
            foretell_pagecache::fit_into(room_bytes);
            // Without it all the same.
            let spare = if room_bytes < LITTLE_BYTES { Spare::start().ok() } else { None };
            let (is_about, stays) = (Cell::new(false), Cell::new(false));
            let working = Working { worker, hearing, is_about, stays, _spare: spare };
            return Role::Work(Line(Some(Rc::new(working))));
        }
        Err(error) => {
            return Role::Alone(Alone { why: format!("cannot start a process ({error})"), caught: None });
        }
        Ok(Split::Keeper(kept)) => kept,
    };
    let how = |lost: Lost| match lost {
        Lost::Signal(SIGKILL) => "our part was ended by signal 9, for want of memory most likely".to_owned(),
        Lost::Signal(signal) => format!("our part was ended by signal {signal}"),
        Lost::Defect(code) => format!("our part was ended by a defect of foretell (exit code {code})"),
        Lost::Means => "our part can start no process".to_owned(),
    };
    match kept {
        Kept::Done(code) => Role::Ran(code),
        Kept::Job { lost, code } => {
            warn(&format!("{}; the job went on by itself", how(lost)));
            Role::Ran(code.unwrap_or(1))
        }
        Kept::NotBegun(lost) => Role::Alone(Alone { why: how(lost), caught: follower.caught }),
        Kept::Left { last_words, code } => Role::Left(Left::new(last_words, Some(code.unwrap_or(1)), None)),
        Kept::LeftToBegin(last_words) => Role::Left(Left::new(last_words, None, follower.caught)),
    }
}

/// In the process that stays: its signals are the program's.
struct Follower {
    hearing: Hearing,
    caught: Option<Caught>,
}

impl Follow for Follower {
    fn about(&mut self) {
        foretell_pagecache::leave_timers_to_the_job();
        if self.caught.is_some() {
            return;
        }
        match Caught::for_later(self.hearing) {
            Ok(caught) => self.caught = Some(caught),
            Err(error) => warn(&format!("signals are not passed on to the job ({})", with_causes(&error))),
        }
    }

    fn begun(&mut self, pid: u32) {
        let job = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(job) = job.and_then(|job| pidfd_open(job, PidfdFlags::empty()).ok())
            && let Some(caught) = self.caught.take()
        {
            caught.pass_on(job, pid);
        }
        foretell_pagecache::unmap_program();
    }

    fn is_ours(&mut self, pid: u32) {
        self.hearing.tell_stops(pid, None);
    }

    fn ended(&mut self) {
        signals::stop_by_ourselves(self.hearing);
    }
}

impl Alone {
    /// The program, and nothing else. Where no other process is to be had this one becomes the program.
    ///
    /// # Errors
    /// When it could not be started.
    pub(crate) fn run(self, program: &OsStr, arguments: &[OsString]) -> Result<u8> {
        warn(&format!("{}; the job runs alone", self.why));
        run_alone(program, arguments, self.caught)
    }
}

impl Left {
    fn new(LastWords { why, did }: LastWords, code: Option<u8>, caught: Option<Caught>) -> Left {
        let did = HOWS.get(usize::from(did)).copied().unwrap_or(How::Alone);
        Left { why, did, code, caught }
    }

    /// Whether the program has run.
    pub(crate) fn has_run(&self) -> bool {
        self.code.is_some()
    }

    /// The exit code of the program, which is run here if it has not.
    ///
    /// # Errors
    /// When it could not be started.
    pub(crate) fn run(self, program: &OsStr, arguments: &[OsString]) -> Result<u8> {
        self.code.map_or_else(|| run_alone(program, arguments, self.caught), Ok)
    }
}

fn run_alone(program: &OsStr, arguments: &[OsString], caught: Option<Caught>) -> Result<u8> {
    let mut started = match Program::start(program, arguments) {
        Err(error) if lacks_means(&error) => return Err(become_program(program, arguments).into()),
        started => started?,
    };
    pass_signals_on(&mut started, caught);
    foretell_pagecache::unmap_program();
    Ok(exit_code(started.wait()?))
}

/// Could no process be started?
pub(crate) fn lacks_means(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(NotRun::NoMeans(_)))
}

/// Our signals are the program's. Without it it runs all the same.
fn pass_signals_on(program: &mut Program, caught: Option<Caught>) {
    let Some(pidfd) = program.take_pidfd() else { return };
    if let Err(error) = signals::pass_on(caught, pidfd, program.pid()) {
        warn(&format!("signals are not passed on to the job ({})", with_causes(&error)));
    }
}

/// In the process that does the work: its line to the one that stays. Nobody stays where no program is started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Option<Rc<Working>>);

#[derive(Debug)]
struct Working {
    worker: Worker,
    hearing: Hearing,
    _spare: Option<Spare>,
    /// Signals are the program's already.
    is_about: Cell<bool>,
    /// Something is to be done here at the program's end.
    stays: Cell<bool>,
}

impl Line {
    /// A program is about to begin: signals are meant for it from now on, and who stays is told. To be called again when that
    /// one did not begin after all.
    pub(crate) fn about_to_begin(&self) {
        let Some(working) = &self.0 else { return };
        if !working.is_about.replace(true)
            && let Err(error) = signals::leave_to_the_keeper(working.hearing)
        {
            warn(&format!("signals may end what is done for the job ({})", with_causes(&error)));
        }
        working.worker.about();
    }

    /// Starts a program that is not held, but begins at once.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub(crate) fn start(&self, program: &OsStr, arguments: &[OsString]) -> Result<Program> {
        self.about_to_begin();
        // It may hear something before this process goes on.
        if let Some(working) = &self.0 {
            working.hearing.begun();
        }
        let mut program = Program::start(program, arguments)?;
        self.begun(&mut program);
        Ok(program)
    }

    /// It has begun, or is held and will.
    pub(crate) fn begun(&self, program: &mut Program) {
        if let Some(working) = &self.0 {
            working.hearing.begun();
        }
        become_small();
        match &self.0 {
            Some(working) => {
                working.worker.begun(program.pid());
                signals::stop_with(working.hearing, program.pid(), working.worker.keeper());
                let working = Rc::clone(working);
                program.tell(move |code, signal| {
                    signals::stop_by_ourselves(working.hearing);
                    working.worker.ended(code, signal);
                });
            }
            None => pass_signals_on(program, None),
        }
    }

    /// Something was asked for that is to be done here at the program's end.
    pub(crate) fn stay(&self) {
        if let Some(working) = &self.0 {
            working.stays.set(true);
        }
    }

    /// The program needs the memory: this process ends at once. Returns where nobody stays with the program, or something is to
    /// be done here at its end. `did` is what was done for the program until then.
    pub(crate) fn leave(&self, why: &str, did: How) {
        if let Some(working) = self.0.as_ref().filter(|working| !working.stays.get()) {
            let did = HOWS.iter().position(|how| *how == did).unwrap_or(0);
            working.worker.leave(why, did as u8);
        }
    }

    /// Does somebody stay?
    pub(crate) fn has_keeper(&self) -> bool {
        self.0.is_some()
    }

    /// There is neither process nor descriptor to be had for the program. Who stays is to see to it when this process has
    /// ended; `false` where nobody does.
    pub(crate) fn cannot(&self) -> bool {
        if let Some(working) = &self.0 {
            working.worker.cannot();
        }
        self.0.is_some()
    }
}

/// Gives back the memory that only our beginning took, when that is over. It is no loss where it fails.
pub(crate) fn become_small() {
    let later = || {
        for time in BEGINNING {
            std::thread::sleep(time);
            foretell_pagecache::unmap_program();
        }
    };
    drop(std::thread::Builder::new().name("become-small".to_owned()).spawn(later));
}
