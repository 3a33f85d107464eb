//! What the keeper knows of a project's slice: what it was given, what was counted of it, what to say
//! to the catalog next.
//!
//! Of all that the node was given, each event is in the purse, in a request under way, counted or given
//! back; so what it holds is what it was given less what is counted and what went back.

use super::refusal::Verdict;
use super::team::{Team, Wanted};
use millrace_catalog::{SliceDecision, SliceStand};
use std::sync::Arc;

/// After so many looks, a second each, at a project that imports nothing its slice goes back.
const IDLE_LOOKS: u32 = 3;
/// A slice is this part of a minute.
const SLICES_PER_MINUTE: u64 = 8;

/// One project's slice on this node.
#[derive(Debug)]
pub struct Ledger {
    team: Arc<Team>,
    /// Counted before the start.
    counted_before: i64,
    /// Given and not given back, since the start.
    owned: i64,
    /// What the catalog heard last of what was counted since the start.
    said: i64,
    /// What the catalog said last.
    decision: SliceDecision,
    idle_looks: u32,
    /// Whether something went back since the catalog heard of this project.
    has_returned: bool,
    /// Requests that waited when the catalog was asked.
    asked: usize,
}

impl Ledger {
    /// A project of which so many events were counted before.
    pub fn new(team: Arc<Team>, counted_before: i64) -> Self {
        Self {
            team,
            counted_before,
            owned: 0,
            said: 0,
            decision: SliceDecision::default(),
            idle_looks: 0,
            has_returned: false,
            asked: 0,
        }
    }

    /// What to say to the catalog, if anything is to be said. `counted`: since the start. `is_look`:
    /// a second has passed.
    pub fn look(&mut self, counted: i64, is_look: bool) -> Option<SliceStand> {
        let wanted = self.team.serve();
        if is_look {
            self.idle_looks = match self.team.was_used() {
                true => 0,
                false => self.idle_looks.saturating_add(1),
            };
        }
        self.give_back(wanted);
        self.asked = wanted.requests;
        let held = self.held(counted);
        let available = self.team.available();
        let stand = SliceStand {
            counted: self.counted_before + counted,
            held,
            unused_micros: self.team.unused_micros(),
            needed: signed(wanted.sum.saturating_sub(available)),
            needed_least: signed(wanted.least.saturating_sub(available)),
            stock: self.stock(available),
        };
        let has_news = counted != self.said || self.has_returned || self.asked > 0;
        (has_news || stand.stock > 0 || (is_look && held > 0)).then_some(stand)
    }

    /// The catalog heard what [`look`](Self::look) said. True if there is more to say at once.
    pub fn heard(&mut self, counted: i64, decision: Option<SliceDecision>) -> bool {
        self.said = counted;
        self.has_returned = false;
        let verdict = Verdict::new(decision);
        self.decision = decision.unwrap_or_else(|| SliceDecision {
            // There is no such project any more.
            give_back: i64::MAX,
            ..SliceDecision::default()
        });
        let given = unsigned(self.decision.given);
        self.owned += signed(given);
        self.team.put(given);
        // Before anyone is let in by what must not be used any more.
        self.give_back_told();
        let asks_again = self.team.judge(verdict, self.asked);
        self.team.set_low(self.target() / 2);
        // Others wait for what goes back.
        asks_again || self.has_returned || self.decision.is_wanted
    }

    /// The catalog may not have heard; whoever waits is sent away.
    pub fn unheard(&mut self) {
        self.team.turn_away();
    }

    /// The catalog was silent for so long that it may give others what is held here. It is told that
    /// this went back before anyone is let in again.
    pub fn give_up(&mut self) {
        self.take_back(u64::MAX);
    }

    /// What is left at the end.
    pub fn close(&mut self, counted: i64) -> Option<SliceStand> {
        let back = self.team.take_back(u64::MAX);
        let held_before = self.held(counted);
        // Nothing is under way any more.
        self.owned = counted;
        (counted != self.said || held_before > 0 || back > 0).then_some(SliceStand {
            counted: self.counted_before + counted,
            ..SliceStand::default()
        })
    }

    /// Events that may be used, or are being.
    pub fn held(&self, counted: i64) -> i64 {
        (self.owned - counted).max(0)
    }

    fn give_back(&mut self, wanted: Wanted) {
        self.give_back_told();
        let is_idle = self.idle_looks >= IDLE_LOOKS;
        if wanted.sum == 0 && (is_idle || self.decision.is_wanted) {
            self.take_back(u64::MAX);
        }
    }

    /// Gives back what the catalog asked back, as far as it is not used yet.
    fn give_back_told(&mut self) {
        let told = unsigned(self.decision.give_back);
        let back = self.take_back(told);
        self.decision.give_back = signed(told - back);
    }

    fn take_back(&mut self, events_max: u64) -> u64 {
        let back = self.team.take_back(events_max);
        self.owned -= signed(back);
        self.has_returned |= back > 0;
        back
    }

    /// How much to put aside.
    fn stock(&self, available: u64) -> i64 {
        let target = self.target();
        let is_in_use = self.idle_looks == 0 && self.decision.is_allowed;
        let asks = is_in_use && !self.decision.is_wanted && available < target / 2;
        signed(if asks { target - available } else { 0 })
    }

    fn target(&self) -> u64 {
        unsigned(self.decision.per_minute) / SLICES_PER_MINUTE
    }
}

fn signed(events: u64) -> i64 {
    i64::try_from(events).unwrap_or(i64::MAX)
}

fn unsigned(events: i64) -> u64 {
    u64::try_from(events).unwrap_or(0)
}
