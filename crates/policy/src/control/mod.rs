//! Control: who the managers and processes are, what each manager has said of its own blocks, and how far it is
//! believed.
//!
//! The interface is that of Cao, Felten, Li 1994, section 3: priorities of files, policies of priority levels,
//! temporary priorities of blocks. A manager that has said nothing is oblivious and costs nothing; its first
//! directive or disclosure makes it a controlling one.

mod managers;
mod pools;
mod revocation;
mod vanishing;
mod waste;

pub(crate) use managers::Managers;
pub(crate) use pools::Pools;
pub(crate) use waste::Fate;
