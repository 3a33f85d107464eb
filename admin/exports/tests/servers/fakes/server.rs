//! A server that a function answers for.

use crate::dialler::loopback;
use crate::wire::Request;
use millrace_catalog::{DestinationType, ExportModel};
use millrace_exports::destination::Configured;
use millrace_exports::destination::calls::Pace;
use millrace_exports::destination::warehouse::{Means, Warehouse};
use millrace_exports::{ExportError, Outlook};
use millrace_rows::TestClock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use url::Url;

/// Secrets that may appear nowhere.
pub const SECRETS: [&str; 4] = [
    "canary-passphrase",
    "canary-secret",
    "canary-user",
    "BEGIN PRIVATE KEY",
];

/// What a request is answered with.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
    }
}

/// What happens to the request of this number, counted from 0 since it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// It is carried out, and the answer is lost.
    Lost,
    /// It is not, and answered 429.
    Busy,
    /// It is not, and answered 500.
    Broken,
}

type Mishaps = Arc<Mutex<Option<(usize, Mishap)>>>;

/// A running server.
pub struct Fake {
    pub url: Url,
    mishaps: Mishaps,
}

impl Fake {
    pub async fn start(answer: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = Url::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let mishaps = Mishaps::default();
        let fake = Self {
            url,
            mishaps: Arc::clone(&mishaps),
        };
        let answer = Arc::new(Mutex::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, mishaps) = (Arc::clone(&answer), Arc::clone(&mishaps));
                tokio::spawn(async move {
                    while let Some((mut request, length)) = Request::head(&mut stream).await {
                        request.body = vec![0; length];
                        if stream.read_exact(&mut request.body).await.is_err() {
                            return;
                        }
                        let reply = match due(&mishaps) {
                            None => (answer.lock().unwrap())(&request),
                            Some(Mishap::Busy) => Reply::json(429, Value::Null),
                            Some(Mishap::Broken) => Reply::json(500, Value::Null),
                            Some(Mishap::Lost) => {
                                (answer.lock().unwrap())(&request);
                                return;
                            }
                        };
                        if stream.write_all(&reply.bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        fake
    }

    /// Says what will happen.
    pub fn mishap(&self, number: usize, mishap: Mishap) {
        *self.mishaps.lock().unwrap() = Some((number, mishap));
    }

    /// Whether it is still to come.
    pub fn is_to_come(&self) -> bool {
        self.mishaps.lock().unwrap().is_some()
    }
}

fn due(mishaps: &Mishaps) -> Option<Mishap> {
    let mut mishaps = mishaps.lock().unwrap();
    match mishaps.take()? {
        (0, mishap) => Some(mishap),
        (number, mishap) => {
            *mishaps = Some((number - 1, mishap));
            None
        }
    }
}

impl Reply {
    fn bytes(&self) -> Vec<u8> {
        let body = self.body.to_string();
        let mut head = format!("HTTP/1.1 {} X\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }
}

/// The table that a configuration names, behind the fake.
pub fn opened(
    fake: &Fake,
    kind: DestinationType,
    config: &Value,
    secrets: &[(&str, &str)],
    clock: TestClock,
) -> Warehouse {
    let (url, secrets) = (fake.url.clone(), named(secrets));
    Warehouse::open_at(url, of_events(kind, config, &secrets), means(clock)).unwrap()
}

/// A destination of events.
pub fn of_events<'a>(
    kind: DestinationType,
    config: &'a Value,
    secrets: &'a BTreeMap<String, String>,
) -> Configured<'a> {
    Configured {
        kind,
        model: ExportModel::Events,
        config,
        secrets,
        files_of: None,
    }
}

/// Secrets as destinations take them.
pub fn named(secrets: &[(&str, &str)]) -> BTreeMap<String, String> {
    let secrets = secrets.iter();
    secrets
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Waits that are no waits.
pub fn means(clock: TestClock) -> Means {
    Means {
        dialler: loopback(),
        clock: Arc::new(clock),
        pace: Pace {
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            tries_max: 3,
            ..Pace::default()
        },
    }
}

/// The error of what must not succeed, with no secret in it.
pub fn refusal<T>(outcome: Result<T, ExportError>) -> (Outlook, String) {
    let Err(error) = outcome else {
        panic!("it succeeded");
    };
    for secret in SECRETS {
        assert!(!error.message.contains(secret), "{error}");
    }
    (error.outlook, error.message)
}
