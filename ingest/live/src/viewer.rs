//! One viewer: filter, sample, and the queue of its messages. What the queue has no place for is
//! dropped and counted, so that a viewer who reads slowly delays nobody.

use crate::event::{EventOutcome, LiveEvent};
use crate::feed::WatchRequest;
use crate::filter::{Fate, LiveFilter};
use crate::message::{LiveMessage, LiveRate};
use crate::render::Rendered;
use crate::sampler::Sampler;
use crate::shipped::ShippedPositions;
use crate::unstored::{Shown, Unstored, UnstoredEvents};
use crate::watched_projects::EventCounts;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Messages that wait for a viewer: more than it is shown in a second.
pub const MESSAGES_MAX: usize = 64;

/// Viewer of a project.
#[derive(Debug)]
pub struct Viewer {
    filter: LiveFilter,
    /// True if the viewer may see addresses of clients.
    shows_ip: bool,
    messages: mpsc::Sender<LiveMessage>,
    sampler: Sampler,
    unstored: UnstoredEvents,
    /// Events of this second that were sent.
    shown: u64,
    /// Events that there was no place for, since that was last told.
    dropped: u64,
}

/// Event with its JSON for both kinds of viewers.
pub struct Offer<'a> {
    pub event: &'a Arc<LiveEvent>,
    pub rendered: Rendered<'a>,
}

// === impl Offer ===

impl<'a> Offer<'a> {
    /// Offer of an event of a node.
    pub fn of(event: &'a Arc<LiveEvent>, node: &str) -> Self {
        let fate = match event.outcome {
            EventOutcome::Logged { .. } => Fate::Logged,
            EventOutcome::Rejected { .. } => Fate::Rejected,
        };
        let rendered = Rendered::of(event, node, fate);
        Self { event, rendered }
    }
}

// === impl Viewer ===

impl Viewer {
    /// Viewer with a queue; returns the end that it reads.
    pub fn new(request: WatchRequest) -> (Self, mpsc::Receiver<LiveMessage>) {
        let (messages, receiver) = mpsc::channel(MESSAGES_MAX);
        let viewer = Self {
            filter: request.filter,
            shows_ip: request.shows_ip,
            messages,
            sampler: Sampler::default(),
            unstored: UnstoredEvents::default(),
            shown: 0,
            dropped: 0,
        };
        (viewer, receiver)
    }

    /// Returns true if nobody reads the messages any more.
    pub fn is_gone(&self) -> bool {
        self.messages.is_closed()
    }

    /// Returns true if the viewer wants an event.
    pub fn wants(&self, event: &LiveEvent) -> bool {
        self.filter.matches(event, self.shows_ip)
    }

    /// Shows an event if the viewer wants it, and it is its turn in the sample.
    pub fn offer(&mut self, offer: &mut Offer<'_>) {
        if self.wants(offer.event) && self.sampler.takes() {
            self.show(offer);
        }
    }

    /// Shows an event that the viewer wants: now, or once it is stored.
    pub fn show(&mut self, offer: &mut Offer<'_>) {
        let until_stored = match offer.event.outcome {
            EventOutcome::Logged { lane, position } => Some((lane, position)),
            EventOutcome::Rejected { .. } => None,
        };
        let waits = self.filter.fate == Some(Fate::Stored);
        if !waits && !self.send_event(&mut offer.rendered) {
            return;
        }
        // Whoever asked for what is logged is told no more.
        if self.filter.fate == Some(Fate::Logged) {
            return;
        }
        let Some((lane, position)) = until_stored else {
            return;
        };
        let shown = match waits {
            true => Shown::Then(Arc::clone(offer.event)),
            false => Shown::Before(offer.rendered.id().to_owned()),
        };
        self.dropped += self.unstored.push(Unstored {
            lane,
            position,
            shown,
        });
    }

    /// Tells which of the events are stored by now.
    pub fn tell_stored(&mut self, shipped: &ShippedPositions, node: &str) {
        let mut ids = Vec::new();
        for stored in self.unstored.take_stored(shipped) {
            match stored.shown {
                Shown::Before(id) => ids.push(id),
                Shown::Then(event) => {
                    let mut rendered = Rendered::of(&event, node, Fate::Stored);
                    self.send_event(&mut rendered);
                }
            }
        }
        if !ids.is_empty() {
            let count = ids.len() as u64;
            let is_told = self.messages.try_send(LiveMessage::Stored { ids }).is_ok();
            self.dropped += if is_told { 0 } else { count };
        }
    }

    /// Tells the numbers of a second, in which the project had these events.
    pub fn tell_rate(&mut self, counts: EventCounts) {
        let rate = LiveRate {
            events: counts.events,
            unseen: counts.unseen,
            matching: self.sampler.begin_second(),
            shown: std::mem::take(&mut self.shown),
            dropped: self.dropped,
            nodes: 1,
            nodes_missing: 0,
        };
        // Otherwise they are told in a second.
        if self.messages.try_send(LiveMessage::Rate(rate)).is_ok() {
            self.dropped = 0;
        }
    }

    /// Sends an event; returns false if there is no place for it.
    fn send_event(&mut self, rendered: &mut Rendered<'_>) -> bool {
        let json = rendered.json(self.shows_ip).to_owned();
        let id = rendered.id().to_owned();
        let sent = self.messages.try_send(LiveMessage::Event { id, json });
        match sent {
            Ok(()) => self.shown += 1,
            Err(_) => self.dropped += 1,
        }
        sent.is_ok()
    }
}
