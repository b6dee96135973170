//! What threads hand to the loop, and the loop to threads.
//!
//! A channel of the standard library spins, with `sched_yield(2)`, while another thread is in the middle of putting
//! something in. That thread may have been put off its processor by the very loop that waits for it, which at real-time
//! priority does not give it back by yielding: 140 ms were seen, until the loop's share was used up. The loop never waits here.
//! What it cannot have or put in now, it has or puts in a moment later.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// A queue.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    letters: Mutex<Letters<T>>,
    changed: Condvar,
    most: usize,
}

#[derive(Debug)]
struct Letters<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
}

impl<T> Mailbox<T> {
    /// One into which the loop puts no more than so much.
    pub(crate) fn new(most: usize) -> Mailbox<T> {
        let letters = Letters { waiting: VecDeque::new(), is_closed: false };
        Mailbox { letters: Mutex::new(letters), changed: Condvar::new(), most }
    }

    /// For threads: puts something in, unless nobody takes it any more.
    pub(crate) fn put(&self, letter: T) {
        let mut letters = self.lock();
        if !letters.is_closed {
            letters.waiting.push_back(letter);
        }
    }

    /// For threads: waits for something; `None` when it is closed and empty.
    pub(crate) fn wait(&self) -> Option<T> {
        let mut letters = self.lock();
        loop {
            if let Some(letter) = letters.waiting.pop_front() {
                return Some(letter);
            }
            if letters.is_closed {
                return None;
            }
            letters = self.changed.wait(letters).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// For the loop: all that is there; `None` if a thread is just looking at it.
    pub(crate) fn take(&self) -> Option<VecDeque<T>> {
        self.lock_if_free().map(|mut letters| std::mem::take(&mut letters.waiting))
    }

    /// For the loop: puts something in.
    ///
    /// # Errors
    /// Gives it back when it is full, closed, or a thread is just looking at it.
    pub(crate) fn try_put(&self, letter: T) -> Result<(), T> {
        match self.lock_if_free() {
            Some(mut letters) if !letters.is_closed && letters.waiting.len() < self.most => {
                letters.waiting.push_back(letter);
                drop(letters);
                self.changed.notify_one();
                Ok(())
            }
            _ => Err(letter),
        }
    }

    /// Nothing is put in from now on; what is there can be had by those that wait. At the end, when the loop may wait.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Letters<T>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_if_free(&self) -> Option<MutexGuard<'_, Letters<T>>> {
        match self.letters.try_lock() {
            Ok(letters) => Some(letters),
            Err(TryLockError::Poisoned(letters)) => Some(letters.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_loop_does_not_wait_for_a_thread_that_looks_into_it() {
        let mailbox = Mailbox::new(2);
        mailbox.put(1);
        let busy = mailbox.lock();
        // This very thread would wait for itself.
        assert_eq!((mailbox.take(), mailbox.try_put(2)), (None, Err(2)));
        drop(busy);
        assert_eq!((mailbox.try_put(2), mailbox.try_put(3)), (Ok(()), Err(3)), "and it is full");
        assert_eq!(mailbox.take(), Some(VecDeque::from([1, 2])));
        assert_eq!(mailbox.take(), Some(VecDeque::new()));
    }

    #[test]
    fn threads_have_what_is_there_before_the_end() {
        let mailbox = Arc::new(Mailbox::new(10));
        let theirs = Arc::clone(&mailbox);
        let thread = std::thread::spawn(move || std::iter::from_fn(|| theirs.wait()).collect::<Vec<_>>());
        for letter in 0..5 {
            while mailbox.try_put(letter).is_err() {}
        }
        mailbox.close();
        assert_eq!(thread.join().unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(mailbox.try_put(5), Err(5));
        mailbox.put(6);
        assert_eq!(mailbox.take(), Some(VecDeque::new()));
    }
}
