//! One stream of those of all nodes.
//!
//! Each node filters and samples, so that at most 50 events a second come from each; here they are
//! sampled once more. Numbers of a second are the sums of those that nodes told in it. Nodes that
//! come later are found by looking for them again and again.

use super::directory::Directory;
use super::node_stream::NodeStream;
use super::second::Second;
use millrace_catalog::NodeEndpoint;
use millrace_live::{LiveMessage, WatchRequest};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Messages that wait for the viewer, and messages of all nodes that wait here.
const MESSAGES_MAX: usize = 64;
/// Most other nodes that one viewer watches.
const OTHERS_MAX: usize = 64;
/// Interval in which numbers are told.
const SECOND: Duration = Duration::from_secs(1);
/// Interval in which nodes are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// Time since its last numbers after which a node counts as missing.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// Name of this process's own stream; nodes have longer ones.
const OWN: &str = "";

/// Stream of all nodes for one viewer.
pub(super) struct Merge {
    directory: Arc<Directory>,
    request: WatchRequest,
    viewer: mpsc::Sender<LiveMessage>,
    /// Ends of the queue of all nodes' messages.
    to_merge: mpsc::Sender<(String, LiveMessage)>,
    messages: mpsc::Receiver<(String, LiveMessage)>,
    /// Tasks that read streams of nodes.
    tasks: JoinSet<()>,
    nodes: HashMap<String, KnownNode>,
    second: Second,
}

/// Node that is watched.
struct KnownNode {
    /// Endpoint of another process.
    endpoint: Option<NodeEndpoint>,
    task: AbortHandle,
    /// Time of the last numbers.
    heard_at: Option<Instant>,
}

impl Merge {
    /// Stream for a viewer; returns the end that it reads.
    pub(super) fn new(
        directory: Arc<Directory>,
        request: WatchRequest,
    ) -> (Self, mpsc::Receiver<LiveMessage>) {
        let (viewer, read) = mpsc::channel(MESSAGES_MAX);
        let (to_merge, messages) = mpsc::channel(MESSAGES_MAX);
        let merge = Self {
            directory,
            request,
            viewer,
            to_merge,
            messages,
            tasks: JoinSet::new(),
            nodes: HashMap::new(),
            second: Second::default(),
        };
        (merge, read)
    }

    /// Merges the streams until nobody reads any more.
    pub(super) async fn run(
        mut self,
        own: Option<mpsc::Receiver<LiveMessage>>,
        others: Vec<NodeEndpoint>,
    ) {
        if let Some(own) = own {
            let task = self.tasks.spawn(pass_on(own, self.to_merge.clone()));
            self.nodes.insert(OWN.to_owned(), KnownNode::of(None, task));
        }
        self.watch_only(others);
        let mut seconds = interval_at(Instant::now() + SECOND, SECOND);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.viewer.closed() => return,
                Some((node, message)) = self.messages.recv() => self.take(&node, message),
                _ = seconds.tick() => self.tell_rate(),
                _ = looks.tick() => {
                    // Otherwise those that are watched stay.
                    if let Some(others) = self.directory.others().await {
                        self.watch_only(others);
                    }
                }
                // Those that ended; others are asked again by themselves.
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    /// Watches these nodes, and no others but the own one.
    fn watch_only(&mut self, mut others: Vec<NodeEndpoint>) {
        others.truncate(OTHERS_MAX);
        self.nodes.retain(|_, node| {
            let is_kept = match &node.endpoint {
                Some(endpoint) => others.iter().any(|it| is_same(it, endpoint)),
                None => true,
            };
            if !is_kept {
                node.task.abort();
            }
            is_kept
        });
        let Some(client) = self.directory.client().cloned() else {
            return;
        };
        for endpoint in others {
            if self.nodes.contains_key(&endpoint.name) {
                continue;
            }
            let stream = NodeStream {
                client: client.clone(),
                endpoint: endpoint.clone(),
                request: self.request.clone(),
                messages: self.to_merge.clone(),
            };
            let task = self.tasks.spawn(stream.run());
            let name = endpoint.name.clone();
            self.nodes.insert(name, KnownNode::of(Some(endpoint), task));
        }
    }

    fn take(&mut self, node: &str, message: LiveMessage) {
        match message {
            LiveMessage::Event { .. } => {
                if self.second.takes() {
                    let is_sent = self.viewer.try_send(message).is_ok();
                    self.second.note_shown(is_sent);
                }
            }
            LiveMessage::Stored { ids } => {
                let count = ids.len() as u64;
                if self.viewer.try_send(LiveMessage::Stored { ids }).is_err() {
                    self.second.note_dropped(count);
                }
            }
            LiveMessage::Rate(rate) => {
                self.second.add(rate);
                if let Some(node) = self.nodes.get_mut(node) {
                    node.heard_at = Some(Instant::now());
                }
            }
        }
    }

    fn tell_rate(&mut self) {
        let now = Instant::now();
        let mut heard = 0;
        for node in self.nodes.values() {
            let heard_at = node.heard_at;
            heard += usize::from(heard_at.is_some_and(|at| now.duration_since(at) < HEARD_WITHIN));
        }
        let missing = self.nodes.len() - heard;
        let rate = self.second.end(heard, missing);
        if self.viewer.try_send(LiveMessage::Rate(rate)).is_err() {
            // Told with the next numbers.
            self.second.note_dropped(rate.dropped);
        }
    }
}

impl KnownNode {
    const fn of(endpoint: Option<NodeEndpoint>, task: AbortHandle) -> Self {
        Self {
            endpoint,
            task,
            heard_at: None,
        }
    }
}

/// Returns true if an endpoint is of the same start of a node.
fn is_same(one: &NodeEndpoint, other: &NodeEndpoint) -> bool {
    one.name == other.name && one.url == other.url && one.token == other.token
}

/// Passes the own messages on until there are no more, or nobody takes them.
async fn pass_on(
    mut own: mpsc::Receiver<LiveMessage>,
    to_merge: mpsc::Sender<(String, LiveMessage)>,
) {
    while let Some(message) = own.recv().await {
        if to_merge.send((OWN.to_owned(), message)).await.is_err() {
            return;
        }
    }
}
