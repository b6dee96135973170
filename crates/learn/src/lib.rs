//! What is known of a job that runs again and again, and what follows from it for tonight.
//!
//! ```text
//!  STATE/jobs/NAME/   lock   nights   recording
//!                              │         │
//!               verdict: alone, watch or steer   plan: lists, start set, budget
//! ```
//!
//! - [`Store`]: where the knowledge of each job lies, one directory a job, for one user.
//! - [`Night`]: what one run was like; [`tonight`] decides from them what to do next.
//! - [`Plan`]: from a recording to what will be read, by whom, and with how much memory.
//! - [`Lists`]: what a recorded run read, without asking for its files.
//! - [`Pace`]: how far it had come at what time.
//! - [`Finder`]: where these files are tonight, found while the job runs; [`Locator`]: those that bear another name.
//! - [`memory`], [`tasks`]: what room there is for the job and for us, of the machine and of control groups.
//!
//! Nothing in here starts a program or asks the kernel for more than names, sizes and what room there is.

mod finder;
mod lists;
mod locate;
pub mod memory;
mod movement;
mod night;
mod pace;
mod plan;
mod store;
pub mod tasks;
mod verdict;

pub use finder::{Beside, Finder, Names, Place, at_a_time, has_an_arm};
pub use lists::{Chunk, Lists, PlannedFile};
pub use locate::Locator;
pub use night::{How, NIGHTS, Night, processors};
pub use pace::Pace;
pub use plan::{LEAST_MEMORY_BYTES, Means, NoPlan, Plan, STEERING_BYTES, StartRange, WATCHING_BYTES};
pub use store::{Job, Store, StoreError, is_name};
pub use verdict::{
    Tonight, WORSE, by_itself, is_at_full_rate, is_worth_steering, needs_all_memory, tonight,
    usual_exit_code, without_plan,
};
