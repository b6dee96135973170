//! Shares of the loop's time: who gets a turn, and for how long.
//!
//! Deficit round robin (Shreedhar, Varghese 1995), by measurement. Every user has a debt: the time that its work has
//! taken ([`foretell_pagecache::Meter`]), less what rounds have paid off since. A round pays one turn's time of every debt. Who owes less than a turn
//! may go on, who owes least comes first. What took longer than a turn is so paid for by not getting the next ones,
//! and a user who says little does not wait for those who say much.
//!
//! Rounds with nothing to do are short, so a user who is alone is not kept waiting. Where only debtors want a turn the
//! rounds until one of them may go are not waited for.
//!
//! A debt outlives the connections of its user: who connects anew goes on where it has left off.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a user may use of a round.
pub(crate) const TURN: Duration = Duration::from_micros(500);
/// What a round takes for all users together, the last turn's end excepted.
pub(crate) const ROUND: Duration = Duration::from_millis(2);
/// Debts that are known at a time. Of more than so many users in debt those who owe least are forgiven.
pub(crate) const DEBTORS: usize = 4096;
/// A debt grows no further: it is paid off in 40 s of full rounds at the latest.
pub(crate) const MOST: Duration = Duration::from_secs(10);

/// The debts.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// By user; who owes nothing is not in it.
    debts: BTreeMap<u32, Duration>,
}

impl Shares {
    /// Work of a user's has taken some time.
    pub(crate) fn charge(&mut self, user: u32, time: Duration) {
        if time.is_zero() {
            return;
        }
        if let Some(debt) = self.debts.get_mut(&user) {
            *debt = (*debt + time).min(MOST);
            return;
        }
        if self.debts.len() >= DEBTORS {
            let least = self.debts.iter().min_by_key(|(_, debt)| **debt).map(|(user, debt)| (*user, *debt));
            match least {
                Some((user, debt)) if debt < time => drop(self.debts.remove(&user)),
                _ => return,
            }
        }
        self.debts.insert(user, time.min(MOST));
    }

    /// A round begins: a turn of every debt is paid off.
    pub(crate) fn pay(&mut self) {
        self.pay_off(TURN);
    }

    fn pay_off(&mut self, time: Duration) {
        self.debts.retain(|_, debt| {
            *debt = debt.saturating_sub(time);
            !debt.is_zero()
        });
    }

    /// What a user owes.
    pub(crate) fn debt(&self, user: u32) -> Duration {
        self.debts.get(&user).copied().unwrap_or_default()
    }

    /// What a user may use now.
    pub(crate) fn left(&self, user: u32) -> Duration {
        TURN.saturating_sub(self.debt(user))
    }

    /// The users who want a turn, in the order in which they get one: who owes least first, then the next after
    /// `last`. At least one of them has something left.
    pub(crate) fn order(&mut self, users: impl Iterator<Item = u32>, last: u32) -> Vec<u32> {
        let mut order: Vec<u32> = users.collect();
        order.sort_by_key(|&user| (self.debt(user), user <= last, user));
        if let Some(&first) = order.first()
            && self.left(first).is_zero()
        {
            self.pay_off(self.debt(first));
        }
        order
    }
}

/// Connections that want a turn.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_user: BTreeMap<u32, (BTreeSet<u64>, u64)>,
}

impl Waiting {
    /// A connection of a user's wants a turn.
    pub(crate) fn insert(&mut self, user: u32, id: u64) {
        self.by_user.entry(user).or_default().0.insert(id);
    }

    /// It wants none any more.
    pub(crate) fn remove(&mut self, user: u32, id: u64) {
        if let Some((ids, _)) = self.by_user.get_mut(&user) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_user.remove(&user);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_user.is_empty()
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_user.keys().copied()
    }

    /// A user's connections, from the one after that which had a turn last.
    pub(crate) fn of_user(&self, user: u32) -> Vec<u64> {
        let Some((ids, last)) = self.by_user.get(&user) else { return Vec::new() };
        let after = ids.range(last + 1..).copied();
        after.chain(ids.range(..=*last).copied()).collect()
    }

    /// A connection of a user's has a turn.
    pub(crate) fn note(&mut self, user: u32, id: u64) {
        if let Some((_, last)) = self.by_user.get_mut(&user) {
            *last = id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn who_has_used_much_waits_until_it_is_paid_off() {
        let mut shares = Shares::default();
        shares.charge(7, ms(2));
        assert_eq!(shares.order([7, 8].into_iter(), 0), [8, 7], "who owes least comes first");
        assert_eq!((shares.left(7), shares.left(8)), (Duration::ZERO, TURN));
        let rounds = (1..).find(|_| {
            shares.pay();
            !shares.left(7).is_zero()
        });
        assert_eq!(rounds, Some(4), "three rounds bring it to half a millisecond, the fourth below");
    }

    #[test]
    fn two_users_get_the_same_time_whatever_their_work_takes_at_once() {
        let mut shares = Shares::default();
        let mut used = [Duration::ZERO; 2];
        let takes = [ms(10), Duration::from_micros(50)];
        let mut last = 0;
        for _ in 0..20_000 {
            shares.pay();
            for user in shares.order(0..2, last) {
                while !shares.left(user).is_zero() {
                    used[user as usize] += takes[user as usize];
                    shares.charge(user, takes[user as usize]);
                    last = user;
                }
            }
        }
        let share = used[0].as_secs_f64() / used[1].as_secs_f64();
        assert!((0.98..=1.02).contains(&share), "{used:?}");
    }

    #[test]
    fn who_is_alone_does_not_wait_for_rounds() {
        let mut shares = Shares::default();
        for _ in 0..10 {
            shares.charge(7, ms(100));
            shares.pay();
            assert_eq!(shares.order([7].into_iter(), 7), [7]);
            assert_eq!(shares.left(7), TURN);
        }
    }

    #[test]
    fn the_table_of_debts_is_limited_and_debts_are() {
        let mut shares = Shares::default();
        for user in 0..DEBTORS as u32 {
            shares.charge(user, ms(u64::from(user) + 2));
        }
        shares.charge(1 << 30, ms(1));
        assert_eq!(shares.debt(1 << 30), Duration::ZERO, "it owes less than anybody");
        shares.charge(1 << 30, ms(3));
        assert_eq!((shares.debt(1 << 30), shares.debt(0)), (ms(3), Duration::ZERO));
        assert_eq!(shares.debts.len(), DEBTORS);
        shares.charge(1, 2 * MOST);
        assert_eq!(shares.debt(1), MOST);
        (0..MOST.as_millis() * 2 + 1).for_each(|_| shares.pay());
        assert!(shares.debts.is_empty(), "what is paid off is forgotten");
    }

    #[test]
    fn the_connections_of_a_user_take_turns() {
        let mut waiting = Waiting::default();
        [3, 5, 9].into_iter().for_each(|id| waiting.insert(7, id));
        waiting.insert(8, 4);
        assert_eq!((waiting.of_user(7), waiting.users().collect::<Vec<_>>()), (vec![3, 5, 9], vec![7, 8]));
        waiting.note(7, 5);
        assert_eq!(waiting.of_user(7), [9, 3, 5]);
        [3, 5, 9].into_iter().for_each(|id| waiting.remove(7, id));
        waiting.remove(8, 4);
        assert!(waiting.is_empty());
    }
}
