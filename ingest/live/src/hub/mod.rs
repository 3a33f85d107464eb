//! Hub: the thread that looks at copied rows and serves the viewers.
//!
//! It looks at 10 MiB of rows a second at most, so that a watched flood costs a small part of a
//! core; what comes beyond waits in the queue, and then is not copied.

use crate::decode::decoded;
use crate::feed::{Watch, WatchRefused, WatchRequest};
use crate::message::LiveMessage;
use crate::observation::Observed;
use crate::render::number_of;
use crate::shared::Shared;
use crate::shipped::ShippedPositions;
use crate::viewer::Viewer;
use crate::watched_project::WatchedProject;
use crate::watched_projects::EventCounts;
use metrics::{describe_gauge, gauge};
use millrace_rows::{Clock, ProjectId};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Most viewers of a node.
pub const VIEWERS_MAX: usize = 64;
/// Most viewers of a project.
pub const PROJECT_VIEWERS_MAX: usize = 16;
/// Interval in which it is looked for what is stored, and for viewers who are gone.
const TICK: Duration = Duration::from_millis(100);
/// Bytes of rows that are looked at in each interval.
const TICK_BYTES_MAX: usize = 1 << 20;
/// Bytes that each request counts as, at least.
const REQUEST_BYTES_MIN: usize = 1 << 10;
/// Interval in which numbers are told.
const SECOND: Duration = Duration::from_secs(1);
const VIEWERS: &str = "millrace_live_viewers";

/// Options of a hub.
pub struct HubOptions {
    /// Name that tells ids of this node's events from those of others.
    pub node: String,
    /// Positions up to which the logs are shipped.
    pub shipped: ShippedPositions,
    /// Clock that events are numbered by.
    pub clock: Arc<dyn Clock>,
    /// Called on the thread as it starts: the place to lower its priority.
    pub on_thread: fn(),
}

/// Hub of a live stream that has not started.
#[derive(Debug)]
pub struct LiveHub {
    shared: Arc<Shared>,
    observed: mpsc::Receiver<Observed>,
    watches: mpsc::Receiver<Watch>,
}

/// Running hub.
struct RunningHub {
    shared: Arc<Shared>,
    observed: mpsc::Receiver<Observed>,
    watches: mpsc::Receiver<Watch>,
    options: HubOptions,
    projects: HashMap<ProjectId, WatchedProject>,
    /// Bytes of rows that may still be looked at in this interval.
    left_bytes: usize,
    next_second: Instant,
    /// Number of the last event.
    number: u64,
}

// === impl LiveHub ===

impl LiveHub {
    pub(crate) const fn new(
        shared: Arc<Shared>,
        observed: mpsc::Receiver<Observed>,
        watches: mpsc::Receiver<Watch>,
    ) -> Self {
        Self {
            shared,
            observed,
            watches,
        }
    }

    /// Starts the thread, which ends when nobody can watch any more.
    ///
    /// # Errors
    /// When the system has no thread or runtime left.
    pub fn start(self, options: HubOptions) -> io::Result<()> {
        describe_gauge!(VIEWERS, "People who watch live streams of this node");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let thread = std::thread::Builder::new().name("live".to_owned());
        thread.spawn(move || {
            (options.on_thread)();
            runtime.block_on(self.run(options));
        })?;
        Ok(())
    }

    /// Serves viewers until all feeds are dropped.
    pub(crate) async fn run(self, options: HubOptions) {
        let running = RunningHub {
            shared: self.shared,
            observed: self.observed,
            watches: self.watches,
            options,
            projects: HashMap::new(),
            left_bytes: TICK_BYTES_MAX,
            next_second: Instant::now(),
            number: 0,
        };
        running.run().await;
    }
}

// === impl RunningHub ===

/// Ends the observation of requests, also after a panic: nobody would read the copies.
impl Drop for RunningHub {
    fn drop(&mut self) {
        self.shared.projects.clear();
    }
}

impl RunningHub {
    async fn run(mut self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                watch = self.watches.recv() => match watch {
                    Some(Watch { request, reply }) => {
                        let answer = self.open(request);
                        // A viewer who has gone is noticed in the next interval.
                        let _ = reply.send(answer);
                    }
                    None => return,
                },
                Some(observed) = self.observed.recv(), if self.left_bytes > 0 => {
                    self.show(&observed);
                }
                _ = ticks.tick(), if !self.projects.is_empty() => self.tick(),
            }
        }
    }

    fn open(&mut self, request: WatchRequest) -> Result<mpsc::Receiver<LiveMessage>, WatchRefused> {
        self.remove_gone();
        if self.viewers() >= VIEWERS_MAX {
            return Err(WatchRefused::Full);
        }
        let project_id = request.project_id;
        if !self.projects.contains_key(&project_id) {
            if !self.shared.projects.add(project_id) {
                return Err(WatchRefused::Full);
            }
            if self.projects.is_empty() {
                self.next_second = Instant::now() + SECOND;
            }
        }
        let project = self.projects.entry(project_id).or_default();
        if project.viewers.len() >= PROJECT_VIEWERS_MAX {
            return Err(WatchRefused::ProjectFull);
        }
        let seen = request.seen.as_deref().and_then(number_of);
        let (viewer, messages) = Viewer::new(request);
        project.add(viewer, seen, &self.options.node);
        gauge!(VIEWERS).set(self.viewers() as f64);
        Ok(messages)
    }

    fn viewers(&self) -> usize {
        let projects = self.projects.values();
        projects.map(|project| project.viewers.len()).sum()
    }

    fn show(&mut self, observed: &Observed) {
        let bytes = observed.rows.bytes().max(REQUEST_BYTES_MIN);
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        let Some(project) = self.projects.get_mut(&observed.project_id) else {
            return;
        };
        let now = u64::try_from(self.options.clock.now().0).unwrap_or(0);
        let number = &mut self.number;
        let events = decoded(observed, || {
            *number = now.max(*number + 1);
            *number
        });
        let looked_at = events.len() as u64;
        for event in events {
            project.show(event, &self.options.node);
        }
        let counts = EventCounts {
            events: 0,
            unseen: observed.events().saturating_sub(looked_at),
        };
        self.shared.projects.count(observed.project_id, counts);
    }

    fn tick(&mut self) {
        self.left_bytes = TICK_BYTES_MAX;
        let now = Instant::now();
        let is_next_second = now >= self.next_second;
        for (project_id, project) in &mut self.projects {
            project.tell_stored(&self.options.shipped, &self.options.node);
            if is_next_second {
                project.tell_rates(self.shared.projects.counts(*project_id));
            }
        }
        if is_next_second {
            self.next_second = now + SECOND;
        }
        self.remove_gone();
    }

    /// Removes viewers who are gone, and projects that nobody has watched for a while.
    fn remove_gone(&mut self) {
        let now = Instant::now();
        let table = &self.shared.projects;
        self.projects.retain(|project_id, project| {
            let is_over = project.is_over(now);
            if is_over {
                table.remove(*project_id);
            }
            !is_over
        });
        gauge!(VIEWERS).set(self.viewers() as f64);
    }
}

#[cfg(test)]
mod tests;
