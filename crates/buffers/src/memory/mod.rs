//! The memory of a pool, from which readers take what is there without the pool's lock, also in other processes.
//!
//! The *data* are slots of one part each. The *board* says what they hold: a header a slot, an index over them, and a
//! *lane* for each thread that reads. Both are memory files (memfd_create(2)) that guests map as well, the data read-only.
//!
//! A slot is filled, published and withdrawn by the pool's process alone, under the pool's lock. Who reads it must not see
//! it filled anew meanwhile:
//!
//! - *The pool's own threads* hold a reference, one that is only taken while there is another one, and then look once more
//!   whether the slot holds what they want. Without references it is free.
//! - *Guests* may be killed at any moment and so leave no count behind. A guest writes into its lane which slot it reads (a
//!   hazard pointer, Michael 2004), and then looks whether the slot still holds what it wants. The pool withdraws a slot
//!   first and looks into all lanes before it fills it again. All four are sequentially consistent, so that the guest sees
//!   the slot withdrawn or the pool sees it read (Dekker's argument). What a dead guest had in its lanes is cleared when
//!   its connection ends.
//!
//! So nothing is copied twice and no copy has to be thrown away: bytes that are read do not change.
//!
//! Each read that was answered so leaves a [`Reference`] in its lane. The pool tells them to the engine before it does
//! anything else under its lock: those of one lane in their order, those of several by the kernel's last tick (4 ms or less).
//! So the engine has them all before it decides what goes. Who has left many sees to it that somebody tells them. How many
//! that are, the board says:
//!
//! - *Awaited*, while lists are followed or something is there ahead of its use: a few, and who left the last one tells them
//!   itself, as the planner fetches by them. A reader whose lane is full takes the way under the lock.
//! - *Relaxed* otherwise: half of a lane, and a thread of the pool tells them while readers go on. Who is quicker than that
//!   thread and fills its lane goes on, too: what finds no room is counted, and the engine takes the order from the others
//!   (as Caffeine's read buffers do: Manes, "Design of a modern cache", 2016). And of one part a thread leaves one reference
//!   a tick: what it reads again within that is counted and says nothing new (O'Neil, O'Neil and Weikum 1993 call such
//!   references correlated).

mod arena;
mod attached;
mod board;
mod granted;
mod here;
mod lanes;
mod lease;
mod mapping;
mod taking;
#[cfg(test)]
mod tests;

pub(crate) use arena::{Arena, Buffer, Filling};
pub(crate) use attached::Attached;
pub(crate) use board::{MOST_READ_PARTS, RELAXED, Reference, Tell};
pub(crate) use granted::Granted;
pub(crate) use here::Here;
pub(crate) use lanes::Lanes;
pub(crate) use lease::Lease;
