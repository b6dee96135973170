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
//! anything else under its lock, in the order of their time; who has left many sees to it that somebody does. How many that
//! are, the board says: few where lists are followed or something is there ahead of its use, and else half of a lane. A reader whose lane
//! is full takes the way under the lock.

mod arena;
mod attached;
mod board;
mod here;
mod lanes;
mod mapping;
#[cfg(test)]
mod tests;

pub(crate) use arena::{Arena, Buffer, Filling};
pub(crate) use attached::{Attached, Granted};
pub(crate) use board::{MOST_READ_PARTS, RELAXED, Reference};
pub(crate) use here::Here;
pub(crate) use lanes::Lanes;
