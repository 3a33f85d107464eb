//! A hub with viewers and requests, from the tap to the messages.

use super::*;
use crate::channel::live;
use crate::feed::LiveFeed;
use crate::filter::{Fate, LiveFilter};
use crate::message::LiveRate;
use crate::tap::LiveTap;
use crate::testing::{NOW, POSITION, PROJECT, batch, event_group, facts, rejected_group};
use millrace_log::Position;
use millrace_rows::{Lane, TestClock};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

struct TestHub {
    tap: LiveTap,
    feed: LiveFeed,
    live: watch::Sender<Position>,
}

/// Starts a hub on the runtime of the test.
fn start() -> TestHub {
    let (tap, feed, hub) = live();
    let (live, shipped) = watch::channel(Position::FIRST);
    let options = HubOptions {
        node: "n1".to_owned(),
        shipped: ShippedPositions {
            live: shipped.clone(),
            historical: shipped,
        },
        clock: Arc::new(TestClock::at(NOW)),
        on_thread: || {},
    };
    tokio::spawn(hub.run(options));
    TestHub { tap, feed, live }
}

fn request(filter: LiveFilter) -> WatchRequest {
    WatchRequest {
        project_id: PROJECT,
        filter,
        shows_ip: false,
        seen: None,
    }
}

fn of_fate(fate: Fate) -> WatchRequest {
    request(LiveFilter {
        fate: Some(fate),
        ..LiveFilter::default()
    })
}

impl TestHub {
    async fn watch(&self, request: WatchRequest) -> mpsc::Receiver<LiveMessage> {
        self.feed.watch(request).await.unwrap()
    }

    /// Has a request with some accepted events and one rejected event logged.
    fn log(&self, accepted: u32) {
        let names = vec!["page"; accepted as usize];
        let groups = vec![event_group(202_611, &names), rejected_group(&["{}"])];
        let observed = self
            .tap
            .observe(PROJECT, &batch(groups), || facts(accepted, 1));
        observed.unwrap().logged(Lane::Live, POSITION);
    }
}

async fn next(messages: &mut mpsc::Receiver<LiveMessage>) -> LiveMessage {
    timeout(LONG, messages.recv()).await.unwrap().unwrap()
}

/// Next message that is no rate; an event as its id and fate.
async fn next_shown(messages: &mut mpsc::Receiver<LiveMessage>) -> (String, String) {
    loop {
        match next(messages).await {
            LiveMessage::Event { id, json } => {
                let event: Value = serde_json::from_str(&json).unwrap();
                assert_eq!(event["id"], id.as_str());
                return (id, event["fate"].as_str().unwrap().to_owned());
            }
            LiveMessage::Stored { ids } => return (ids.join(" "), "told".to_owned()),
            LiveMessage::Rate(_) => {}
        }
    }
}

async fn next_rate(messages: &mut mpsc::Receiver<LiveMessage>) -> LiveRate {
    loop {
        if let LiveMessage::Rate(rate) = next(messages).await {
            return rate;
        }
    }
}

fn id(nth: i64) -> String {
    format!("{}-n1", NOW.0 + nth)
}

fn shown(nth: i64, fate: &str) -> (String, String) {
    (id(nth), fate.to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_event_is_logged_then_stored_or_rejected() {
    let hub = start();
    let mut all = hub.watch(request(LiveFilter::default())).await;
    let mut logged = hub.watch(of_fate(Fate::Logged)).await;
    let mut stored = hub.watch(of_fate(Fate::Stored)).await;
    let mut rejected = hub.watch(of_fate(Fate::Rejected)).await;
    hub.log(1);
    assert_eq!(next_shown(&mut all).await, shown(0, "logged"));
    assert_eq!(next_shown(&mut all).await, shown(1, "rejected"));
    assert_eq!(next_shown(&mut logged).await, shown(0, "logged"));
    assert_eq!(next_shown(&mut rejected).await, shown(1, "rejected"));
    sleep(Duration::from_secs(5)).await;
    hub.live.send_replace(POSITION);
    assert_eq!(next_shown(&mut all).await, (id(0), "told".to_owned()));
    assert_eq!(next_shown(&mut stored).await, shown(0, "stored"));
    for messages in [&mut all, &mut logged, &mut stored, &mut rejected] {
        let more = timeout(Duration::from_secs(3), next_shown(messages)).await;
        assert!(more.is_err(), "{more:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_true_rate_is_told_of_events_that_are_not_shown() {
    let hub = start();
    let mut messages = hub.watch(of_fate(Fate::Logged)).await;
    for _ in 0..4 {
        hub.log(40);
    }
    let rate = next_rate(&mut messages).await;
    let expected = LiveRate {
        events: 164,
        unseen: 0,
        matching: 160,
        shown: 50,
        dropped: 0,
        nodes: 1,
        nodes_missing: 0,
    };
    assert_eq!(rate, expected);
    let nothing = LiveRate {
        nodes: 1,
        ..LiveRate::default()
    };
    assert_eq!(next_rate(&mut messages).await, nothing);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_who_reads_nothing_delays_nobody_and_is_told_what_it_missed() {
    let hub = start();
    let mut slow = hub.watch(of_fate(Fate::Logged)).await;
    let mut other = hub.watch(of_fate(Fate::Logged)).await;
    for _ in 0..3 {
        hub.log(40);
        while next_rate(&mut other).await.events == 0 {}
    }
    // 40 events and the rate of a second, then the rest of the queue.
    for _ in 0..60 {
        next(&mut slow).await;
    }
    while slow.try_recv().is_ok() {}
    let rate = next_rate(&mut slow).await;
    assert!(rate.dropped > 50, "{rate:?}");
    while slow.try_recv().is_ok() {}
    assert_eq!(next_rate(&mut slow).await.dropped, 0, "told once");
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_what_is_looked_at_are_counted_as_unseen() {
    let hub = start();
    let mut messages = hub.watch(request(LiveFilter::default())).await;
    // Without a break for the hub, the queue is full at some time.
    for _ in 0..300 {
        hub.log(1);
    }
    let rate = next_rate(&mut messages).await;
    assert_eq!((rate.events, rate.unseen), (600, 88), "{rate:?}");
}

#[tokio::test(start_paused = true)]
async fn a_viewer_who_comes_back_is_shown_what_it_missed() {
    let hub = start();
    let mut messages = hub.watch(request(LiveFilter::default())).await;
    hub.log(1);
    let (seen, _) = next_shown(&mut messages).await;
    drop(messages);
    sleep(Duration::from_secs(10)).await;
    hub.log(1);
    sleep(Duration::from_secs(1)).await;
    let again = WatchRequest {
        seen: Some(seen),
        ..request(LiveFilter::default())
    };
    let mut messages = hub.watch(again).await;
    for (nth, fate) in [(1, "rejected"), (2, "logged"), (3, "rejected")] {
        assert_eq!(next_shown(&mut messages).await, shown(nth, fate));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_not_observed_once_nobody_has_watched_for_a_while() {
    let hub = start();
    assert!(!hub.tap.is_watched());
    let messages = hub.watch(request(LiveFilter::default())).await;
    assert!(hub.tap.is_watched());
    sleep(LONG).await;
    assert!(hub.tap.is_watched(), "as long as it is watched");
    drop(messages);
    sleep(Duration::from_secs(10)).await;
    assert!(hub.tap.is_watched(), "the viewer may come back");
    sleep(Duration::from_secs(10)).await;
    assert!(!hub.tap.is_watched());
}

#[tokio::test(start_paused = true)]
async fn viewers_are_limited_in_each_project_and_in_all() {
    let hub = start();
    let of_project = |number: i64| WatchRequest {
        project_id: ProjectId(number),
        ..request(LiveFilter::default())
    };
    let mut held = Vec::new();
    for number in 0..VIEWERS_MAX as i64 {
        let project_id = 1 + number / PROJECT_VIEWERS_MAX as i64;
        held.push(hub.watch(of_project(project_id)).await);
        if held.len() == PROJECT_VIEWERS_MAX {
            let refused = hub.feed.watch(of_project(1)).await;
            assert_eq!(refused.unwrap_err(), WatchRefused::ProjectFull);
        }
    }
    let refused = hub.feed.watch(of_project(99)).await;
    assert_eq!(refused.unwrap_err(), WatchRefused::Full);
    held.pop();
    hub.watch(of_project(99)).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_hub_nobody_can_watch() {
    let (tap, feed, hub) = live();
    let waiting = feed.watch(request(LiveFilter::default())).await;
    assert_eq!(waiting.unwrap_err(), WatchRefused::Unavailable);
    drop(hub);
    let refused = feed.watch(request(LiveFilter::default())).await;
    assert_eq!(refused.unwrap_err(), WatchRefused::Unavailable);
    assert!(!tap.is_watched());
}

#[tokio::test(start_paused = true)]
async fn a_hub_ends_with_its_feeds_and_observes_no_more() {
    let TestHub { tap, feed, .. } = start();
    let mut messages = feed.watch(request(LiveFilter::default())).await.unwrap();
    drop(feed);
    while timeout(LONG, messages.recv()).await.unwrap().is_some() {}
    assert!(!tap.is_watched());
}
