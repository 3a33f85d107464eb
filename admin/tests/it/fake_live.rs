//! Live streams without ingestion: messages that are made up.

use async_trait::async_trait;
use millrace_admin::live_source::LiveSource;
use millrace_live::{LiveMessage, LiveRate, WatchRefused, WatchRequest};
use std::sync::Mutex;
use tokio::sync::mpsc;

/// Name of the event whose stream has no end; all others end soon.
pub const ENDLESS: &str = "endless";
/// Name of the event whose stream has too many viewers.
pub const FULL: &str = "full";

#[derive(Debug, Default)]
pub struct FakeLive(Mutex<Vec<WatchRequest>>);

impl FakeLive {
    /// Takes the requests that were made.
    pub fn take_asked(&self) -> Vec<WatchRequest> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[async_trait]
impl LiveSource for FakeLive {
    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<mpsc::Receiver<LiveMessage>, WatchRefused> {
        let name = request.filter.event.clone().unwrap_or_default();
        self.0.lock().unwrap().push(request);
        if name == FULL {
            return Err(WatchRefused::ProjectFull);
        }
        let (sender, messages) = mpsc::channel(8);
        let event = LiveMessage::Event {
            id: "7-n1".to_owned(),
            json: r#"{"event":"page"}"#.to_owned(),
        };
        sender.send(event).await.unwrap();
        let rate = LiveRate::default();
        sender.send(LiveMessage::Rate(rate)).await.unwrap();
        if name == ENDLESS {
            tokio::spawn(async move { sender.closed().await });
        }
        Ok(messages)
    }
}
