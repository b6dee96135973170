//! Who waits to be served: some of each user, the next one always another user's.
//!
//! A flood of one user's is short of room alone: beyond its share that user's oldest goes, and when the lobby is full the
//! oldest of whoever has most in it. Users are served in turns, each its oldest first.

use std::collections::{BTreeMap, VecDeque};

/// How many may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// In all; at least one.
    pub most: usize,
    /// Of one user; root's may be as many as there is room for.
    pub most_of_user: usize,
}

/// What waits, by user.
#[derive(Debug)]
pub(crate) struct Lobby<T> {
    room: Room,
    /// Users of whom something waits, each with the number of its arrival.
    by_user: BTreeMap<u32, VecDeque<(u64, T)>>,
    waiting: usize,
    arrived: u64,
    /// Who was served last.
    last: u32,
}

impl<T> Lobby<T> {
    pub(crate) fn new(room: Room) -> Lobby<T> {
        Lobby { room, by_user: BTreeMap::new(), waiting: 0, arrived: 0, last: u32::MAX }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Lets one in, and gives back who has to go for it.
    pub(crate) fn enter(&mut self, user: u32, one: T) -> Option<T> {
        let its = self.by_user.get(&user).map_or(0, VecDeque::len);
        let goes = if user != 0 && its >= self.room.most_of_user.max(1) {
            self.take_oldest(user)
        } else if self.waiting >= self.room.most.max(1) {
            self.who_has_most().and_then(|user| self.take_oldest(user))
        } else {
            None
        };
        self.arrived += 1;
        self.by_user.entry(user).or_default().push_back((self.arrived, one));
        self.waiting += 1;
        goes
    }

    /// The oldest of the next user.
    pub(crate) fn next(&mut self) -> Option<T> {
        let after = self.last.checked_add(1).and_then(|from| self.by_user.range(from..).next());
        let (&user, _) = after.or_else(|| self.by_user.first_key_value())?;
        self.last = user;
        self.take_oldest(user)
    }

    /// Of users with as many it is the one whose oldest has waited longest.
    fn who_has_most(&self) -> Option<u32> {
        let rank = |all: &VecDeque<(u64, T)>| {
            (all.len(), std::cmp::Reverse(all.front().map_or(u64::MAX, |(arrival, _)| *arrival)))
        };
        self.by_user.iter().max_by_key(|(_, all)| rank(all)).map(|(user, _)| *user)
    }

    fn take_oldest(&mut self, user: u32) -> Option<T> {
        let all = self.by_user.get_mut(&user)?;
        let (_, oldest) = all.pop_front()?;
        if all.is_empty() {
            self.by_user.remove(&user);
        }
        self.waiting -= 1;
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<T>(lobby: &mut Lobby<T>) -> Vec<T> {
        std::iter::from_fn(|| lobby.next()).collect()
    }

    #[test]
    fn users_are_served_in_turns_and_each_in_its_order() {
        let mut lobby = Lobby::new(Room { most: 100, most_of_user: 50 });
        for one in 0..5 {
            assert_eq!(lobby.enter(7, (7, one)), None);
        }
        lobby.enter(9, (9, 0));
        assert_eq!(lobby.next(), Some((7, 0)));
        lobby.enter(8, (8, 0));
        lobby.enter(u32::MAX, (u32::MAX, 0));
        let rest = [(8, 0), (9, 0), (u32::MAX, 0), (7, 1), (7, 2), (7, 3), (7, 4)];
        assert_eq!(all(&mut lobby), rest);
        assert!(lobby.is_empty());
    }

    #[test]
    fn beyond_its_share_the_oldest_of_a_user_goes() {
        let mut lobby = Lobby::new(Room { most: 10, most_of_user: 3 });
        lobby.enter(8, (8, 0));
        let gone: Vec<_> = (0..6).filter_map(|one| lobby.enter(7, (7, one))).collect();
        assert_eq!(gone, [(7, 0), (7, 1), (7, 2)]);
        assert_eq!((0..6).filter_map(|one| lobby.enter(0, (0, one))).count(), 0, "root has no share");
        assert_eq!(all(&mut lobby).len(), 10);
    }

    #[test]
    fn when_it_is_full_the_oldest_of_whoever_has_most_goes() {
        let mut lobby = Lobby::new(Room { most: 6, most_of_user: 4 });
        lobby.enter(1, (1, 0));
        (0..4).for_each(|one| assert_eq!(lobby.enter(7, (7, one)), None));
        lobby.enter(8, (8, 0));
        assert_eq!(lobby.enter(9, (9, 0)), Some((7, 0)));
        assert_eq!(lobby.enter(9, (9, 1)), Some((7, 1)));
        assert_eq!(lobby.enter(9, (9, 2)), Some((7, 2)), "two each, and these are the older ones");
        assert_eq!(lobby.enter(9, (9, 3)), Some((9, 0)), "three of its own");
        assert_eq!(all(&mut lobby), [(1, 0), (7, 3), (8, 0), (9, 1), (9, 2), (9, 3)]);
    }
}
