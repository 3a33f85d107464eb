//! Server whose answers come from a function.

use crate::dialler::loopback;
use crate::wire::Request;
use millrace_catalog::{DestinationType, ExportModel};
use millrace_exports::destination::DestinationConfig;
use millrace_exports::destination::calls::RetryPolicy;
use millrace_exports::destination::warehouse::{Warehouse, WarehouseDeps};
use millrace_exports::{ExportError, ExportErrorKind};
use millrace_rows::TestClock;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use url::Url;

/// Secrets that must not appear anywhere.
pub const SECRETS: [&str; 4] = [
    "canary-passphrase",
    "canary-secret",
    "canary-user",
    "BEGIN PRIVATE KEY",
];

/// Answer to a request.
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

/// Fault of a single request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is carried out, and its answer is lost.
    Lost,
    /// The request is not carried out, and answered with 429.
    Busy,
    /// The request is not carried out, and answered with 500.
    Broken,
    /// The request is not carried out, and answered with 403 for a limit, as Google does.
    Limited,
}

type Faults = Arc<Mutex<Option<(usize, Fault)>>>;

/// Running fake server.
pub struct Fake {
    pub url: Url,
    faults: Faults,
}

impl Fake {
    pub async fn start(answer: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = Url::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let faults = Faults::default();
        let fake = Self {
            url,
            faults: Arc::clone(&faults),
        };
        let answer = Arc::new(Mutex::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, faults) = (Arc::clone(&answer), Arc::clone(&faults));
                tokio::spawn(async move {
                    while let Some((mut request, length)) = Request::head(&mut stream).await {
                        request.body = vec![0; length];
                        if stream.read_exact(&mut request.body).await.is_err() {
                            return;
                        }
                        let reply = match due(&faults) {
                            None => (answer.lock().unwrap())(&request),
                            Some(Fault::Busy) => Reply::json(429, Value::Null),
                            Some(Fault::Broken) => Reply::json(500, Value::Null),
                            Some(Fault::Limited) => google_error(403, "rateLimitExceeded"),
                            Some(Fault::Lost) => {
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

    /// Injects a fault into the request of this number, counted from 0 from now on.
    pub fn inject(&self, number: usize, fault: Fault) {
        *self.faults.lock().unwrap() = Some((number, fault));
    }

    /// Returns true if the fault was not injected yet.
    pub fn is_pending(&self) -> bool {
        self.faults.lock().unwrap().is_some()
    }
}

fn due(faults: &Faults) -> Option<Fault> {
    let mut faults = faults.lock().unwrap();
    match faults.take()? {
        (0, fault) => Some(fault),
        (number, fault) => {
            *faults = Some((number - 1, fault));
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

/// Error of Google's APIs, as their documents show it.
pub fn google_error(status: u16, reason: &str) -> Reply {
    let error = json!({"reason": reason, "message": "canary-user"});
    Reply::json(
        status,
        json!({"error": {"code": status, "errors": [error]}}),
    )
}

/// Opens the table that a configuration names, behind the fake.
pub fn opened(
    fake: &Fake,
    kind: DestinationType,
    config: &Value,
    secrets: &[(&str, &str)],
    clock: TestClock,
) -> Warehouse {
    opened_by(fake, kind, config, secrets, deps(clock))
}

/// Opens such a table, with the limits of its dependencies.
pub fn opened_by(
    fake: &Fake,
    kind: DestinationType,
    config: &Value,
    secrets: &[(&str, &str)],
    deps: WarehouseDeps,
) -> Warehouse {
    let (url, secrets) = (fake.url.clone(), named(secrets));
    Warehouse::open_at(url, of_events(kind, config, &secrets), deps).unwrap()
}

/// Configuration of a destination of events.
pub fn of_events<'a>(
    kind: DestinationType,
    config: &'a Value,
    secrets: &'a BTreeMap<String, String>,
) -> DestinationConfig<'a> {
    DestinationConfig {
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

/// Dependencies of a warehouse, with retries without pauses.
pub fn deps(clock: TestClock) -> WarehouseDeps {
    WarehouseDeps {
        dialler: loopback(),
        clock: Arc::new(clock),
        retry_policy: RetryPolicy {
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            tries_max: 3,
            ..RetryPolicy::default()
        },
    }
}

/// Dependencies of a warehouse whose jobs may take next to no time.
pub fn impatient_deps(clock: TestClock) -> WarehouseDeps {
    let mut deps = deps(clock);
    deps.retry_policy.work_max = Duration::from_millis(200);
    deps
}

/// Error of an operation that must not succeed, checked to have no secret in it.
pub fn refusal<T>(outcome: Result<T, ExportError>) -> (ExportErrorKind, String) {
    let Err(error) = outcome else {
        panic!("it succeeded");
    };
    for secret in SECRETS {
        assert!(!error.message.contains(secret), "{error}");
    }
    (error.kind, error.message)
}
