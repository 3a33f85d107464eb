//! Capture of log lines.

use serde_json::Value;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::EnvFilter;

/// Filter of the captured lines: the default level, and everything of our crates.
const FILTER: &str = "info,millrace_admin=trace,millrace_catalog=trace,millrace_exports=trace,\
    millrace_organizations=trace";

/// Captures the log lines of this thread's tasks until it is dropped.
pub struct Logs {
    written: Written,
    _subscriber: DefaultGuard,
    /// While a process has one subscriber only, an event that another thread reaches first is
    /// turned off for ever by that thread's having none (`callsite::dispatchers` of tracing-core
    /// 0.1).
    _second: Dispatch,
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Logs {
    pub fn catch() -> Self {
        let written = Written::default();
        let writer = written.clone();
        let second = Dispatch::new(NoSubscriber::default());
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_env_filter(EnvFilter::new(FILTER))
            .with_writer(move || writer.clone())
            .finish();
        Self {
            written,
            _subscriber: tracing::subscriber::set_default(subscriber),
            _second: second,
        }
    }

    /// All captured lines, as they were written.
    pub fn text(&self) -> String {
        String::from_utf8(self.written.0.lock().unwrap().clone()).unwrap()
    }

    /// Lines since the last call: the message and the request id of each.
    pub fn take(&self) -> Vec<(String, Value)> {
        let written = std::mem::take(&mut *self.written.0.lock().unwrap());
        let lines = serde_json::Deserializer::from_slice(&written).into_iter::<Value>();
        let messages = lines.map(|line| {
            let line = line.unwrap();
            let message = line["fields"]["message"].as_str().unwrap().to_owned();
            (message, line["spans"][0]["request_id"].clone())
        });
        messages.collect()
    }
}
