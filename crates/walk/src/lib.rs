//! Fetching ahead for a program of which nothing is known but that it walks through a tree of files, or goes through a file
//! in sequence or in equal steps.
//!
//! Backups, copies, searches, checksums and imports read the files of a tree in an order that the tree itself tells: as the
//! directories list them, or by name, or by inode. After a few files it is clear which of these it is, and what
//! comes next can be read while the program is busy with what it has.
//!
//! - A *visit* is a program that begins to read a file from its beginning.
//! - A *course* is an order and a place in it. Whoever comes next by chance is any of the files around: that it is
//!   the one that was foreseen is evidence, of as many bits as there were others. With 16 bits a course is believed, and
//!   what it says is fetched. Of the eleven courses that begin at each place those that do not fit are dropped.
//! - Within a directory all follows from the course. To go on in the directory beside it a program has been seen to do so
//!   once, at that height: what lies outside the tree that it was given is not guessed.
//! - Several processes that share a list come a little out of order: a file is looked for among the next 16, and those
//!   that were passed by may come for a while.
//! - *Habits*: kinds of names that are left out are not fetched (`grep --include`), and of each file no more than
//!   was read of those before (`file`, or whoever reads tags).
//! - Guesses that turn out wrong more than once in four end in a pause, and files that were cached already as well.
//!
//! - On a disk with an arm files that lie beside one that is fetched go along, if they are to come ([`Wanted::Neighbours`]).
//!
//! Prefetching of what has been seen to follow each other is old (Griffioen and Appleton 1994); here the directories
//! foretell what has never been seen.
//!
//! [`Streams`] does the same within a file, also where it is read here and there, and [`Descents`] for programs that read the directories alone: see there.
//!
//! [`Unordered`] is for programs that read the files of a tree in no order.
//!
//! [`Walks`], [`Streams`], [`Descents`] and [`Unordered`] are the pure part; [`Walker`] runs them beside a job, with threads that read.

mod arm;
mod asked;
mod costs;
mod course;
mod descents;
mod habits;
mod kinds;
mod listing;
mod means;
mod neighbours;
mod pays;
mod readers;
mod resting;
mod scattered;
mod steps;
mod streams;
mod tops;
mod trust;
mod unordered;
mod waits;
mod walker;
mod walks;
mod ways;

pub use descents::{DescentGuesses, Descents, Place};
pub use habits::Extent;
pub use listing::{Ahead, Beside, Contents, Disk, Entry, Kind, Tree};
pub use means::{Found, Means};
pub use neighbours::OnDisk;
pub use streams::{Piece, StreamGuesses, Streams};
pub use unordered::{Unordered, UnorderedGuesses};
pub use waits::movement_ns;
pub use walker::{AllGuesses, Walker};
pub use walks::{Guesses, Look, Visit, Walks, Wanted};
