//! What the processes of a run say about their blocks, as `foretell run` lets them: rules by file, and a list.
//!
//! A file that neither a rule nor the list names is left to the kernel, as in a run: its blocks belong to an
//! oblivious manager, whom nobody asks and who discloses nothing. All other blocks of a process belong to a
//! manager of its own, under the rules; if a list is given, the processes share one manager, because one list
//! says in which order all of them read.

use foretell_policy::{Block, Engine, FileId, Input, ManagerId, Nanos, PoolPolicy, ProcessId};

use crate::cell::Cell;
use crate::error::SimError;

/// Rules and a list, resolved to the files of an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// Priority level of each file of the input; `None` leaves the file to the kernel.
    pub files: Vec<Option<i32>>,
    /// The policy of each level that a rule names.
    pub levels: Vec<(i32, PoolPolicy)>,
    /// What is disclosed in place of the references themselves.
    pub list: Option<Vec<Block>>,
}

impl Control {
    /// Is the file managed, or left to the kernel?
    pub(crate) fn manages(&self, file: u32) -> bool {
        self.files.get(file as usize).is_some_and(Option::is_some)
    }
}

/// A process as the engine knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enrolled {
    pub(crate) manager: ManagerId,
    pub(crate) process: ProcessId,
    /// The same process where it references what is left to the kernel.
    pub(crate) kernel: Option<ProcessId>,
}

/// Introduces `processes` processes to the engine, which knows the files already.
pub(crate) fn enrol(cell: &Cell, engine: &mut Engine, processes: usize) -> Result<Vec<Enrolled>, SimError> {
    let mut enrolled = Vec::with_capacity(processes);
    let Some(control) = &cell.control else {
        for _ in 0..processes {
            let manager = engine.add_manager(false)?;
            if let Some(policy) = cell.policy.pool_policy() {
                engine.set_policy(manager, 0, policy)?;
            }
            enrolled.push(Enrolled { manager, process: engine.add_process(manager), kernel: None });
        }
        return Ok(enrolled);
    };
    let kernel = match control.files.iter().all(Option::is_some) {
        true => None,
        false => Some(engine.add_manager(false)?),
    };
    let mut shared: Option<ManagerId> = None;
    for _ in 0..processes {
        let manager = match shared {
            Some(manager) => manager,
            None => managed(control, engine)?,
        };
        shared = control.list.is_some().then_some(manager);
        let process = engine.add_process(manager);
        let kernel = kernel.map(|kernel| engine.add_process(kernel));
        if let Some(kernel) = kernel {
            engine.tell(Nanos(0), Input::OneProcess { process: kernel, first: process });
        }
        enrolled.push(Enrolled { manager, process, kernel });
    }
    Ok(enrolled)
}

/// A manager under the rules.
fn managed(control: &Control, engine: &mut Engine) -> Result<ManagerId, SimError> {
    let manager = engine.add_manager(false)?;
    for &(priority, policy) in &control.levels {
        engine.set_policy(manager, priority, policy)?;
    }
    for (file, priority) in control.files.iter().enumerate() {
        if let Some(priority) = priority.filter(|&priority| priority != 0) {
            engine.set_priority(manager, FileId(file as u32), priority)?;
        }
    }
    Ok(manager)
}
