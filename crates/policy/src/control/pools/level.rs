//! One priority level: its blocks in the order of its policy.
//!
//! Under LRU and MRU the order is that of recency; the other policies keep a [`Ranking`]. An adaptive level
//! has shadows beside it and follows the policy that they name. When the policy changes, the blocks are
//! put in the new order from the one that would have gone first to the one that would have gone last, once.
//!
//! Policies with queues of a certain size, and shadows, need to know for how many blocks there is room. That
//! is settled between managers and levels as they go: it is taken to be what the level holds when a block of
//! it is asked for, the whole cache before the first time. Changes by less than a sixteenth are let be.

use crate::blocks::{BlockId, Blocks};
use crate::ids::Block;
use crate::pool_policy::PoolPolicy;
use crate::recency::RecencyList;
use crate::replacement::{Ranking, key_of};
use crate::shadow::{Shadow, ShadowReport};

/// A level's room has changed when it has by more than one in so many blocks.
const ROOM_SHARE: u32 = 16;

#[derive(Debug)]
enum Order {
    Recency {
        blocks: RecencyList,
        newest_first: bool,
    },
    Ranked {
        ranking: Box<Ranking>,
        /// The block that was referenced last: a program that reads it piece by piece says so once.
        latest: Option<BlockId>,
        /// The block that was last named as the one to go.
        named: Option<BlockId>,
    },
}

impl Order {
    fn new(policy: PoolPolicy, room_blocks: u32) -> Order {
        let newest_first = policy == PoolPolicy::Mru;
        let ranking = match policy {
            PoolPolicy::Lru | PoolPolicy::Mru => None,
            policy => Ranking::new(policy, room_blocks, 1),
        };
        match ranking {
            Some(ranking) => Order::Ranked { ranking: Box::new(ranking), latest: None, named: None },
            None => Order::Recency { blocks: RecencyList::default(), newest_first },
        }
    }
}

#[derive(Debug)]
pub(super) struct Level {
    pub(super) priority: i32,
    /// As it was set.
    policy: PoolPolicy,
    order: Order,
    shadow: Option<Box<Shadow>>,
    room_blocks: u32,
    /// Its blocks go to another level of the same priority, which has taken its place.
    pub(super) retired: bool,
}

impl Level {
    pub(super) fn new(priority: i32, room_blocks: u32) -> Level {
        let policy = PoolPolicy::default();
        let order = Order::new(policy, room_blocks);
        Level { priority, policy, order, shadow: None, room_blocks: room_blocks.max(1), retired: false }
    }

    pub(super) fn len(&self) -> usize {
        match &self.order {
            Order::Recency { blocks, .. } => blocks.len(),
            Order::Ranked { ranking, .. } => ranking.len() as usize,
        }
    }

    pub(super) fn policy(&self) -> PoolPolicy {
        self.policy
    }

    /// The level's policy is another one; gives which order its blocks are to be in from now on, if it changes.
    pub(super) fn set_policy(&mut self, policy: PoolPolicy) -> Option<PoolPolicy> {
        if policy == self.policy {
            return None;
        }
        self.policy = policy;
        self.shadow = (policy == PoolPolicy::Adaptive).then(|| Box::new(Shadow::new(self.room_blocks)));
        Some(self.shadow.as_ref().map_or(policy, |shadow| shadow.following()))
    }

    /// A level of the same priority and policy, without blocks, in the order of `follow`: it goes on with what is known
    /// of the policies, and this one is retired.
    pub(super) fn successor(&mut self, follow: PoolPolicy) -> Level {
        self.retired = true;
        let order = Order::new(follow, self.room_blocks);
        let shadow = self.shadow.take();
        let (priority, policy, room_blocks) = (self.priority, self.policy, self.room_blocks);
        Level { priority, policy, order, shadow, room_blocks, retired: false }
    }

    /// Are the blocks ordered by their last reference alone?
    pub(super) fn is_by_recency(&self) -> bool {
        matches!(self.order, Order::Recency { .. })
    }

    /// Does the one go first that was referenced last?
    #[inline]
    pub(super) fn is_newest_first(&self) -> bool {
        matches!(self.order, Order::Recency { newest_first: true, .. })
    }

    pub(super) fn shadow_report(&self) -> Option<ShadowReport> {
        self.shadow.as_ref().map(|shadow| shadow.report())
    }

    /// A block of this level was referenced, cached or not; gives which order is the better one now, if that changes.
    #[inline]
    pub(super) fn observe(&mut self, block: Block) -> Option<PoolPolicy> {
        self.shadow.as_mut()?.reference(block)
    }

    /// The blocks, from the one that would go first (least recently used under MRU, too).
    pub(super) fn members(&self) -> Vec<BlockId> {
        match &self.order {
            Order::Recency { blocks, .. } => blocks.iter().collect(),
            Order::Ranked { ranking, .. } => ranking.tags(),
        }
    }

    /// A block comes, referenced just now.
    pub(super) fn push(&mut self, blocks: &mut Blocks, b: BlockId) {
        blocks[b].place = match &mut self.order {
            Order::Recency { blocks: list, .. } => list.push_back(b, |m, p| blocks[m].place = p),
            Order::Ranked { ranking, latest, named } => {
                (*latest, *named) = (Some(b), None);
                ranking.insert(key_of(blocks[b].block), b)
            }
        };
        let len = self.len() as u32;
        if len > self.room_blocks {
            self.set_room(len);
        }
    }

    /// A block of the level is referenced.
    pub(super) fn touch(&mut self, blocks: &mut Blocks, b: BlockId) {
        let place = blocks[b].place;
        match &mut self.order {
            Order::Recency { blocks: list, .. } => {
                let place = list.touch(b, place, |m, p| blocks[m].place = p);
                blocks[b].place = place;
            }
            Order::Ranked { ranking, latest, named } => {
                if *latest != Some(b) {
                    (*latest, *named) = (Some(b), None);
                    ranking.hit(place);
                }
            }
        }
    }

    /// A block of the level is to be replaced later than the others, where the order is one of recency.
    pub(super) fn keep(&mut self, blocks: &mut Blocks, b: BlockId) {
        if let Order::Recency { blocks: list, newest_first } = &mut self.order {
            list.remove(blocks[b].place);
            let place = if *newest_first {
                list.push_front(b, |m, p| blocks[m].place = p)
            } else {
                list.push_back(b, |m, p| blocks[m].place = p)
            };
            blocks[b].place = place;
        }
    }

    /// Blocks come from elsewhere, to be replaced later than those that are here.
    pub(super) fn push_last(&mut self, blocks: &mut Blocks, coming: Vec<BlockId>) {
        match &mut self.order {
            // Placed one by one at either end, they keep their order of recency among themselves.
            Order::Recency { blocks: list, newest_first: true } => {
                for b in coming.into_iter().rev() {
                    let place = list.push_front(b, |m, p| blocks[m].place = p);
                    blocks[b].place = place;
                }
            }
            Order::Recency { blocks: list, newest_first: false } => {
                for b in coming {
                    let place = list.push_back(b, |m, p| blocks[m].place = p);
                    blocks[b].place = place;
                }
            }
            Order::Ranked { ranking, named, .. } => {
                *named = None;
                for b in coming {
                    let slot = ranking.insert(key_of(blocks[b].block), b);
                    ranking.keep(slot);
                    blocks[b].place = slot;
                }
            }
        }
    }

    /// A block comes from the level that this one has followed, to be replaced sooner than what is here, where the order
    /// is one of recency.
    pub(super) fn push_before(&mut self, blocks: &mut Blocks, b: BlockId) {
        match &mut self.order {
            Order::Recency { blocks: list, .. } => {
                let place = list.push_front(b, |m, p| blocks[m].place = p);
                blocks[b].place = place;
            }
            Order::Ranked { .. } => self.push(blocks, b),
        }
    }

    /// The block at `place` leaves.
    pub(super) fn remove(&mut self, place: u32) {
        match &mut self.order {
            Order::Recency { blocks, .. } => blocks.remove(place),
            Order::Ranked { ranking, latest, named } => {
                let b = ranking.tag(place);
                let evicted = named.take() == Some(b);
                if *latest == Some(b) {
                    *latest = None;
                }
                ranking.remove(place, evicted);
            }
        }
    }

    /// The block that goes first.
    pub(super) fn victim(&mut self) -> Option<BlockId> {
        let len = self.len() as u32;
        if len.abs_diff(self.room_blocks) > self.room_blocks / ROOM_SHARE && len > 0 {
            self.set_room(len);
        }
        match &mut self.order {
            Order::Recency { blocks, newest_first: false } => blocks.front(),
            Order::Recency { blocks, newest_first: true } => blocks.back(),
            Order::Ranked { ranking, named, .. } => {
                *named = ranking.victim().map(|slot| ranking.tag(slot));
                *named
            }
        }
    }

    fn set_room(&mut self, room_blocks: u32) {
        self.room_blocks = room_blocks;
        if let Order::Ranked { ranking, .. } = &mut self.order {
            ranking.set_capacity(room_blocks);
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.set_capacity(room_blocks);
        }
    }

    /// Changes the order of the blocks without touching any: says whether that can be done.
    pub(super) fn turn_to(&mut self, policy: PoolPolicy) -> bool {
        if let Order::Recency { newest_first, .. } = &mut self.order
            && matches!(policy, PoolPolicy::Lru | PoolPolicy::Mru)
        {
            *newest_first = policy == PoolPolicy::Mru;
            return true;
        }
        false
    }

    /// Puts the blocks in the order of a policy, as they come.
    pub(super) fn follow(&mut self, blocks: &mut Blocks, policy: PoolPolicy) {
        let members = self.members();
        self.order = Order::new(policy, self.room_blocks);
        for b in members {
            self.push(blocks, b);
        }
    }
}
