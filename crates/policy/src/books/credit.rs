//! Credit: how much may be fetched ahead before it has shown to be right.
//!
//! A list that is wrong for this run, because it is another job's or half of the job's, costs what is fetched by it
//! before the alignment has seen enough. So what a manager's lists have fetched and nobody has used yet is limited by an
//! allowance, as a connection's window is by slow start (Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988):
//!
//! 1. It begins with [`FIRST`] blocks.
//! 2. A block that is referenced earns [`EARNED`] more.
//! 3. A block that is replaced unused, or that the reader has passed by, takes [`LOST`]. So the allowance grows where more than two thirds are used, and falls below.
//! 4. It is never less than [`LEAST`], so that a list can recover, and never more than the cache, which holds no more.
//!
//! While the allowance is used up, nothing more is fetched by the manager's lists. Readahead and demand fetches are no
//! part of it.

use crate::ids::ManagerId;

/// Blocks that may be ahead before one has been used: 8 MiB of 8 KiB, half a second of a disk with 16 MB/s. Most of the
/// cache of the papers' workloads, so that their complete hints cost nothing to begin with.
pub(crate) const FIRST: u32 = 1024;

/// Blocks that a used one earns. 1 is slower with 20% inserted (0.52 instead of 0.49 of the time without hints), as
/// credit that is lost by entries which are known to be isolated comes back too slowly.
const EARNED: u32 = 2;

/// Blocks that an unused one takes. 2 leaves seven cells of 40 slower with half of the hints dropped, 4 leaves five.
const LOST: u32 = 4;

/// The least allowance: a batch or more for each of several disks. 32 leaves disks of an array idle (20% perturbed 0.63
/// instead of 0.62) and saves nothing with half of the hints wrong.
const LEAST: u32 = 128;

/// One manager's credit.
#[derive(Debug, Clone, Copy)]
struct Account {
    allowance: u32,
    /// Blocks fetched on credit of which nothing is known yet.
    ahead: u32,
}

impl Default for Account {
    fn default() -> Account {
        Account { allowance: FIRST, ahead: 0 }
    }
}

/// The credit of all managers. Managers are dense numbers, as many as [`crate::Limits::managers`].
#[derive(Debug)]
pub(crate) struct Credit {
    accounts: Vec<Account>,
    cache_blocks: u32,
}

impl Credit {
    pub(super) fn new(cache_blocks: u32) -> Credit {
        Credit { accounts: Vec::new(), cache_blocks }
    }

    /// The cache has another size.
    pub(super) fn set_cache_blocks(&mut self, cache_blocks: u32) {
        self.cache_blocks = cache_blocks;
    }

    /// A manager's lists begin anew.
    pub(super) fn open(&mut self, manager: ManagerId) {
        *self.account(manager) = Account::default();
    }

    /// May one more block be fetched ahead for this manager?
    #[inline]
    pub(super) fn has_room(&self, manager: ManagerId) -> bool {
        let account = self.accounts.get(manager.0 as usize).copied().unwrap_or_default();
        account.ahead < account.allowance
    }

    /// A block is being fetched.
    pub(super) fn fetched(&mut self, manager: ManagerId) {
        self.account(manager).ahead += 1;
    }

    /// One of them was used.
    pub(super) fn used(&mut self, manager: ManagerId) {
        let most = self.cache_blocks.max(LEAST);
        let account = self.account(manager);
        account.ahead = account.ahead.saturating_sub(1);
        account.allowance = account.allowance.saturating_add(EARNED).min(most);
    }

    /// One of them was fetched in vain.
    pub(super) fn lost(&mut self, manager: ManagerId) {
        let account = self.account(manager);
        account.ahead = account.ahead.saturating_sub(1);
        account.allowance = account.allowance.saturating_sub(LOST).max(LEAST);
    }

    /// One of them did not come, or its list was withdrawn: that says nothing of the list.
    pub(super) fn returned(&mut self, manager: ManagerId) {
        let account = self.account(manager);
        account.ahead = account.ahead.saturating_sub(1);
    }

    fn account(&mut self, manager: ManagerId) -> &mut Account {
        let slot = manager.0 as usize;
        if self.accounts.len() <= slot {
            self.accounts.resize(slot + 1, Account::default());
        }
        &mut self.accounts[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const M: ManagerId = ManagerId(3);

    fn room(credit: &Credit) -> u32 {
        let mut credit = Credit { accounts: credit.accounts.clone(), ..*credit };
        (0..)
            .find(|_| {
                !credit.has_room(M) || {
                    credit.fetched(M);
                    false
                }
            })
            .unwrap()
    }

    #[test]
    fn an_example_by_hand() {
        let mut credit = Credit::new(4096);
        assert_eq!(room(&credit), 1024);
        for _ in 0..1024 {
            credit.fetched(M);
        }
        assert!(!credit.has_room(M) && credit.has_room(ManagerId(0)));
        // Two places for the used one, and its own.
        credit.used(M);
        assert_eq!(room(&credit), 3);
        // Its own place, and four fewer: 1026 - 4 - 1022.
        credit.lost(M);
        assert_eq!(room(&credit), 0);
        credit.returned(M);
        assert_eq!(room(&credit), 1);
        for _ in 0..1021 {
            credit.lost(M);
        }
        assert_eq!(room(&credit), 128, "the least");
        for _ in 0..5000 {
            credit.used(M);
        }
        assert_eq!(room(&credit), 4096, "the cache");
        credit.open(M);
        assert_eq!(room(&credit), 1024);
    }

    proptest! {
        /// Against what the header says, counted from the beginning each time.
        #[test]
        fn random_fates(fates in prop::collection::vec(0..4u8, 0..4000), cache_blocks in 1..6000u32) {
            let mut credit = Credit::new(cache_blocks);
            for (done, &fate) in fates.iter().enumerate() {
                match fate {
                    0 => credit.fetched(M),
                    1 => credit.used(M),
                    2 => credit.lost(M),
                    _ => credit.returned(M),
                }
                if done % 97 != 0 {
                    continue;
                }
                let (mut ahead, mut allowance) = (0i64, 1024i64);
                for fate in &fates[..=done] {
                    ahead = if *fate == 0 { ahead + 1 } else { (ahead - 1).max(0) };
                    allowance = match fate {
                        1 => (allowance + 2).min(i64::from(cache_blocks).max(128)),
                        2 => (allowance - 4).max(128),
                        _ => allowance,
                    };
                }
                prop_assert_eq!(i64::from(room(&credit)), (allowance - ahead).max(0));
            }
        }
    }
}
