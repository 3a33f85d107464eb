//! What one node says of a project, and what it is given: decided here, without a database.
//!
//! A node says where it stands, never what changed, so that saying it twice changes nothing: how many
//! events it counted, ever, and how many it holds. What was given in an answer that it did not get is
//! with the project again by the next time.

use super::bucket::Bucket;
use sea_orm::prelude::Uuid;

/// The grant of what anyone may import unasked.
pub const UNASKED: Uuid = Uuid::nil();
/// How long the wish of a node for what others hold is remembered, in microseconds.
pub const WISH_MICROS: i64 = 5_000_000;

/// Something that a project's events may be counted under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The migration; [`UNASKED`] for what needs none.
    pub id: Uuid,
    /// How fast its events may come.
    pub per_minute: i64,
    /// How many are not counted yet; less than nothing if it was made smaller since.
    pub left: i64,
    /// Whether more of them may come.
    pub is_open: bool,
    /// How many were counted just now.
    pub newly_counted: i64,
}

/// A node's part of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Whose.
    pub node: String,
    /// Of what.
    pub grant_id: Uuid,
    /// Events counted, ever.
    pub counted: i64,
    /// Events given that are neither counted nor given back.
    pub held: i64,
    /// Whether the node can be using it; one that was not heard of for long does not.
    pub is_live: bool,
    /// Whether it is to be written.
    pub has_changed: bool,
}

/// A project's books.
#[derive(Clone, Debug)]
pub struct Account {
    /// In the order in which they are used up.
    pub grants: Vec<Grant>,
    /// Of all nodes.
    pub slices: Vec<Slice>,
    /// How fast.
    pub bucket: Bucket,
    /// Who wants what others hold, and since when.
    pub wish: Option<(String, i64)>,
    /// Whether the organization may import at all.
    pub is_allowed: bool,
}

/// Where a node stands with a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceStand {
    /// Events that it counted, ever.
    pub counted: i64,
    /// Events that it was given and has neither counted nor given back.
    pub held: i64,
    /// For so long it has let nobody use any of it, in microseconds; 0 if it does not know.
    pub unused_micros: i64,
    /// So many more would let all requests in that wait.
    pub needed: i64,
    /// So many more would let the smallest of them in.
    pub needed_least: i64,
    /// So many more would be put aside for requests to come, if there is plenty.
    pub stock: i64,
}

/// What the node is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceDecision {
    /// Events that it was given.
    pub given: i64,
    /// Events, of those that it held before, that it must not use any more.
    pub give_back: i64,
    /// Whether another node wants what it does not need.
    pub is_wanted: bool,
    /// The rate.
    pub per_minute: i64,
    /// What is left in the bucket.
    pub in_bucket: i64,
    /// What is left of the volume, and with no node.
    pub free: i64,
    /// What other nodes hold that can give it back.
    pub held_elsewhere: i64,
    /// Whether the organization may import at all.
    pub is_allowed: bool,
}

impl Account {
    /// Counts what `node` counted, and gives it what it asks for, if there is as much.
    pub fn settle(
        &mut self,
        node: &str,
        now: i64,
        stand: SliceStand,
        default_rate: i64,
    ) -> SliceDecision {
        let per_minute = self.rate(default_rate);
        if self.bucket.was_filled() {
            // What is counted now was held until it was used.
            let used_at = now.saturating_sub(stand.unused_micros.max(0));
            self.fill(used_at, per_minute);
        }
        self.count(node, stand.counted);
        let (returned, too_many) = self.hold(node, stand.held);
        if self.of(node).all(|slice| slice.is_live) {
            self.bucket.put_back(returned);
        } else {
            // The bucket was filled as if all it had were gone. It gave that up, but for requests that
            // were under way all the time.
            self.bucket.take(self.held(|slice| slice.node == node));
            self.revive(node);
        }
        self.fill(now, per_minute);
        let held_elsewhere = self.held(|slice| slice.is_live && slice.node != node);
        let is_wanted = self.is_wanted(node, now);
        let given = self.amount(stand, is_wanted);
        self.give(node, given);
        self.note_wish(node, now, stand, given, held_elsewhere);
        let ended = |slice: &Slice| slice.node == node && !self.is_open(slice.grant_id);
        let of_ended = match self.is_allowed {
            true => self.held(ended),
            false => self.held(|slice| slice.node == node),
        };
        SliceDecision {
            given,
            give_back: of_ended + too_many,
            is_wanted,
            per_minute,
            in_bucket: self.bucket.events(),
            free: self.free(),
            held_elsewhere,
            is_allowed: self.is_allowed,
        }
    }

    fn fill(&mut self, until: i64, per_minute: i64) {
        let held_live = self.held(|slice| slice.is_live);
        self.bucket.fill(until, per_minute, held_live);
    }

    /// Counts under the grants that the node holds events of, the oldest first.
    fn count(&mut self, node: &str, counted: i64) {
        let known: i64 = self.of(node).map(|slice| slice.counted).sum();
        let mut rest = counted.saturating_sub(known).max(0);
        for grant in &mut self.grants {
            let of_grant = |slice: &&mut Slice| slice.node == node && slice.grant_id == grant.id;
            if let Some(slice) = self.slices.iter_mut().find(of_grant) {
                let counted = rest.min(slice.held);
                slice.held -= counted;
                slice.add(counted, grant);
                rest -= counted;
            }
        }
        if rest == 0 {
            return;
        }
        // More than it ever held: the catalog is older than the node's log. Events that are there
        // are counted all the same.
        let open = self.grants.iter().position(|grant| grant.is_open);
        let place = open.unwrap_or(self.grants.len().saturating_sub(1));
        let Some(id) = self.grants.get(place).map(|grant| grant.id) else {
            return;
        };
        let at = self.slice_at(node, id);
        if let (Some(slice), Some(grant)) = (self.slices.get_mut(at), self.grants.get_mut(place)) {
            slice.add(rest, grant);
        }
    }

    /// Notes how much the node holds still; what it returned, and what it cannot have.
    fn hold(&mut self, node: &str, held: i64) -> (i64, i64) {
        let known = self.held(|slice| slice.node == node);
        let returned = known.saturating_sub(held).max(0);
        let mut rest = returned;
        for wants_open in [false, true] {
            for grant in self.grants.iter().rev() {
                let of_grant = |slice: &&mut Slice| {
                    slice.node == node && slice.grant_id == grant.id && grant.is_open == wants_open
                };
                if let Some(slice) = self.slices.iter_mut().find(of_grant) {
                    let back = rest.min(slice.held);
                    slice.held -= back;
                    slice.has_changed |= back > 0;
                    rest -= back;
                }
            }
        }
        (returned - rest, held.saturating_sub(known).max(0))
    }

    /// The highest rate of what may come still.
    fn rate(&self, default_rate: i64) -> i64 {
        let open = self.grants.iter().filter(|grant| grant.is_open);
        let rate = |needs_left: bool| {
            let usable = open.clone().filter(|grant| !needs_left || grant.left > 0);
            usable.map(|grant| grant.per_minute).max()
        };
        rate(true).or_else(|| rate(false)).unwrap_or(default_rate)
    }

    /// How much to give: what is needed, else what lets some in, and a stock if there is plenty.
    fn amount(&self, stand: SliceStand, is_wanted: bool) -> i64 {
        if !self.is_allowed {
            return 0;
        }
        let there = self.bucket.events().min(self.free()).max(0);
        let stock = if is_wanted { 0 } else { stand.stock };
        if there >= stand.needed.saturating_add(stock.saturating_mul(2)) {
            stand.needed + stock
        } else if there >= stand.needed_least && stand.needed > 0 {
            there.min(stand.needed)
        } else {
            0
        }
    }

    fn give(&mut self, node: &str, events: i64) {
        self.bucket.take(events);
        let mut rest = events;
        let open = self.grants.iter().filter(|grant| grant.is_open);
        let free: Vec<(Uuid, i64)> = open.map(|it| (it.id, self.free_of(it))).collect();
        for (id, free) in free {
            let given = rest.min(free.max(0));
            if given > 0 {
                let at = self.slice_at(node, id);
                if let Some(slice) = self.slices.get_mut(at) {
                    slice.held += given;
                    slice.has_changed = true;
                }
                rest -= given;
            }
        }
    }

    fn is_wanted(&mut self, node: &str, now: i64) -> bool {
        let is_old = |(_, since): &(String, i64)| now.saturating_sub(*since) > WISH_MICROS;
        if self.wish.as_ref().is_some_and(is_old) {
            self.wish = None;
        }
        self.wish.as_ref().is_some_and(|(by, _)| by != node)
    }

    /// One wish at a time, until it is met or old: two nodes that want what the other has would
    /// otherwise both wait.
    fn note_wish(
        &mut self,
        node: &str,
        now: i64,
        stand: SliceStand,
        given: i64,
        held_elsewhere: i64,
    ) {
        let is_met = stand.needed > 0 && given >= stand.needed_least;
        match &self.wish {
            Some((by, _)) if by != node => {}
            _ if stand.needed > 0 && !is_met && held_elsewhere > 0 && self.is_allowed => {
                self.wish = Some((node.to_owned(), now));
            }
            Some(_) if is_met => self.wish = None,
            _ => {}
        }
    }

    /// What may be given of all grants.
    fn free(&self) -> i64 {
        let open = self.grants.iter().filter(|grant| grant.is_open);
        open.map(|grant| self.free_of(grant).max(0)).sum()
    }

    fn free_of(&self, grant: &Grant) -> i64 {
        grant.left - self.held(|slice| slice.grant_id == grant.id)
    }

    fn held(&self, which: impl Fn(&Slice) -> bool) -> i64 {
        let held = self.slices.iter().filter(|slice| which(slice));
        held.map(|slice| slice.held).sum()
    }

    fn of(&self, node: &str) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(move |slice| slice.node == node)
    }

    fn is_open(&self, id: Uuid) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.id == id && grant.is_open)
    }

    fn revive(&mut self, node: &str) {
        let of_node = self.slices.iter_mut().filter(|slice| slice.node == node);
        of_node.for_each(|slice| slice.is_live = true);
    }

    /// The place of a node's slice, made if need be.
    fn slice_at(&mut self, node: &str, grant_id: Uuid) -> usize {
        let same = |slice: &Slice| slice.node == node && slice.grant_id == grant_id;
        self.slices.iter().position(same).unwrap_or_else(|| {
            self.slices.push(Slice {
                node: node.to_owned(),
                grant_id,
                counted: 0,
                held: 0,
                is_live: true,
                has_changed: true,
            });
            self.slices.len() - 1
        })
    }
}

impl Slice {
    fn add(&mut self, events: i64, grant: &mut Grant) {
        self.counted += events;
        self.has_changed |= events > 0;
        grant.left -= events;
        grant.newly_counted += events;
    }
}

#[cfg(test)]
mod tests;
