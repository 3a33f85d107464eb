//! Fixture of object stores: an S3 server in Rust, which checks signatures; another in Python,
//! which has tags and ranges; Microsoft's emulator of Azure; and a fake of Google's XML API, as
//! there is no emulator. Tests share the second and the third, which take seconds to start.

use super::faulty_proxy::{RequestHead, ResponseFault, decoded, serve};
use crate::readme::root;
use crate::server::free_address;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;
use tempfile::TempDir;

pub const SECRET: &str = "canary-secret";
const ACCOUNT: &str = "devstoreaccount1";
/// Published key of the Azure emulator.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Timeout for the start of a server on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Objects per page of the fake's listing.
const PAGE: usize = 2;

/// Function that stores an object under a key.
type Put = Box<dyn Fn(&str, &[u8]) + Send + Sync>;

/// Object store with a bucket of a test's own.
pub struct Store {
    pub name: &'static str,
    pub scheme: &'static str,
    pub bucket: String,
    /// URL of the store.
    pub url: String,
    put: Put,
    _server: Option<Daemon>,
    _folder: Option<Arc<TempDir>>,
}

impl Store {
    pub fn all() -> [Self; 4] {
        [Self::s3s(), Self::moto(), Self::azurite(), Self::google()]
    }

    pub fn put(&self, key: &str, bytes: &[u8]) {
        (self.put)(key, bytes);
    }

    /// Environment of a client that reads the store, at its own URL or that of a proxy.
    pub fn environment(&self, url: &str) -> Vec<(&'static str, String)> {
        let own = |name: &str| name.to_owned();
        match self.scheme {
            "s3" => vec![
                ("AWS_ENDPOINT_URL", own(url)),
                ("AWS_ACCESS_KEY_ID", own("AKIA")),
                ("AWS_SECRET_ACCESS_KEY", own(SECRET)),
            ],
            "az" => vec![
                ("AZURE_STORAGE_ENDPOINT", format!("{url}/{ACCOUNT}")),
                ("AZURE_STORAGE_ACCOUNT_NAME", own(ACCOUNT)),
                ("AZURE_STORAGE_ACCOUNT_KEY", own(KEY)),
            ],
            _ => {
                let key = serde_json::json!({
                    "private_key": "", "private_key_id": "", "client_email": "",
                    "disable_oauth": true, "gcs_base_url": url,
                });
                vec![("GOOGLE_SERVICE_ACCOUNT_KEY", key.to_string())]
            }
        }
    }

    pub fn s3s() -> Self {
        let program = root().join(".test-env/s3s-fs/bin/s3s-fs");
        assert!(
            program.exists(),
            "s3s-fs is not there: make test-setup installs it"
        );
        let folder = Arc::new(TempDir::new().unwrap());
        std::fs::create_dir(folder.path().join("exports")).unwrap();
        let port = free_address().port().to_string();
        let mut command = Command::new(program);
        command.env("RUST_LOG", "info").env("NO_COLOR", "1");
        command.args(["--host", "127.0.0.1", "--port", &port]);
        command.args(["--access-key", "AKIA", "--secret-key", SECRET]);
        command.arg(folder.path());
        let (server, url) = Daemon::start(command);
        let bucket = Arc::clone(&folder);
        let put = move |key: &str, bytes: &[u8]| {
            let path = bucket.path().join("exports").join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        Self {
            name: "s3s",
            scheme: "s3",
            bucket: "exports".to_owned(),
            url,
            put: Box::new(put),
            _server: Some(server),
            _folder: Some(folder),
        }
    }

    pub fn moto() -> Self {
        static URL: OnceLock<String> = OnceLock::new();
        let url = URL.get_or_init(|| {
            let mut command = ending_with_us(&python());
            // Its own program cannot choose a free port.
            command.args([
                "-c",
                "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])",
            ]);
            Daemon::shared(command)
        });
        let bucket = new_bucket();
        let within = format!("{url}/{bucket}");
        let put = move |key: &str, bytes: &[u8]| {
            // Any signature is accepted, but one is needed.
            let signature = "AWS4-HMAC-SHA256 Credential=AKIA/20261120/us-east-1/s3/aws4_request, \
                             SignedHeaders=host, Signature=0";
            let request = ureq::put(format!("{within}/{key}")).header("authorization", signature);
            request.send(bytes).unwrap();
        };
        put("", b"");
        Self {
            name: "moto",
            scheme: "s3",
            bucket,
            url: url.clone(),
            put: Box::new(put),
            _server: None,
            _folder: None,
        }
    }

    pub fn azurite() -> Self {
        static URL: OnceLock<String> = OnceLock::new();
        let url = URL.get_or_init(|| Daemon::shared(azurite()));
        let bucket = new_bucket();
        let (account, container) = (format!("{url}/{ACCOUNT}"), bucket.clone());
        let put = move |key: Option<&str>, bytes: &[u8]| {
            let script = root().join("deploy/tests/fixtures/put_blob.py");
            let mut command = Command::new(python());
            command.arg(script).args([&account, &container]).args(key);
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(bytes).unwrap();
            assert!(child.wait().unwrap().success());
        };
        put(None, b"");
        Self {
            name: "azurite",
            scheme: "az",
            bucket,
            url: url.clone(),
            put: Box::new(move |key, bytes| put(Some(key), bytes)),
            _server: None,
            _folder: None,
        }
    }

    pub fn google() -> Self {
        let objects = Arc::<Mutex<BTreeMap<String, Vec<u8>>>>::default();
        let bucket = Arc::clone(&objects);
        let url =
            serve(move |head, _| (google(head, &bucket.lock().unwrap()), ResponseFault::None));
        let put = move |key: &str, bytes: &[u8]| {
            objects
                .lock()
                .unwrap()
                .insert(key.to_owned(), bytes.to_vec());
        };
        Self {
            name: "google",
            scheme: "gs",
            bucket: "exports".to_owned(),
            url,
            put: Box::new(put),
            _server: None,
            _folder: None,
        }
    }
}

/// Name of a bucket that no test of this binary has had.
fn new_bucket() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("exports-{}", MADE.fetch_add(1, Ordering::Relaxed))
}

/// Command of the emulator of Azure, which keeps everything in memory.
fn azurite() -> Command {
    let program = root().join("admin/exports/tests/npm/node_modules/azurite/dist/src/blob/main.js");
    assert!(
        program.exists(),
        "azurite is not there: make test-setup installs it"
    );
    let mut command = ending_with_us(Path::new("node"));
    // It only looks whether its folder is there.
    command.arg(program).current_dir(std::env::temp_dir());
    command.args(["--blobHost", "127.0.0.1", "--blobPort", "0"]);
    command.args([
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--disableTelemetry",
    ]);
    command
}

/// Command for a program that the kernel ends with the thread that started it.
fn ending_with_us(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig=KILL", "--"]).arg(program);
    command
}

pub fn python() -> PathBuf {
    root().join(".test-env/python/bin/python")
}

/// Server process that ends with the test.
struct Daemon(Child);

impl Daemon {
    /// Starts a server for the life of this process; returns its URL. The thread that starts it
    /// waits for it, as those of tests end with their tests.
    fn shared(command: Command) -> String {
        let (say, said) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let (mut daemon, url) = Self::start(command);
            say.send(url).unwrap();
            daemon.0.wait().unwrap();
        });
        said.recv().expect("the server says where it is")
    }

    /// Starts a server and waits until it prints its URL on either output. Both are read for ever,
    /// so that the server never blocks.
    fn start(mut command: Command) -> (Self, String) {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let outputs: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        let (say, said) = mpsc::sync_channel(1);
        for output in outputs {
            let say = say.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Some((_, after)) = line.split_once("http://127.0.0.1:") {
                        let port: String = after.chars().take_while(char::is_ascii_digit).collect();
                        // The receiver needs the URL once.
                        let _ = say.try_send(format!("http://127.0.0.1:{port}"));
                    }
                }
            });
        }
        let daemon = Self(child);
        let url = said.recv_timeout(TEST_TIMEOUT);
        (daemon, url.expect("the server says where it is"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Responses of the fake of Google's API to GET.
fn google(head: &RequestHead, objects: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let Some(key) = path.strip_prefix("/exports") else {
        let refusal = b"<Error><Code>NoSuchBucket</Code></Error>";
        return answer("404 Not Found", "", refusal);
    };
    let key = decoded(key.trim_start_matches('/'));
    if key.is_empty() {
        return answer("200 OK", "", listed(query, objects).as_bytes());
    }
    let Some(object) = objects.get(&key) else {
        let refusal = b"<Error><Code>NoSuchKey</Code></Error>";
        return answer("404 Not Found", "", refusal);
    };
    let tag = tag(object);
    if head.header("if-match").is_some_and(|wanted| wanted != tag) {
        return answer("412 Precondition Failed", "", b"");
    }
    let said = format!("etag: {tag}\r\nlast-modified: Fri, 20 Nov 2026 14:00:00 GMT\r\n");
    let from = head.header("range").map(|range| {
        let from = range.strip_prefix("bytes=").unwrap().trim_end_matches('-');
        from.parse::<usize>().unwrap()
    });
    match from {
        None => answer("200 OK", &said, object),
        Some(from) => {
            let (last, bytes) = (object.len() - 1, object.len());
            let said = format!("{said}content-range: bytes {from}-{last}/{bytes}\r\n");
            answer("206 Partial Content", &said, &object[from..])
        }
    }
}

fn listed(query: &str, objects: &BTreeMap<String, Vec<u8>>) -> String {
    let asked = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(found, _)| *found == name);
        values.next().map(|(_, value)| decoded(value))
    };
    let (prefix, behind) = (asked("prefix"), asked("continuation-token"));
    let found = objects.iter().filter(|(key, _)| {
        key.starts_with(prefix.as_deref().unwrap_or_default())
            && behind.as_ref().is_none_or(|behind| *key > behind)
    });
    let found: Vec<_> = found.take(PAGE + 1).collect();
    let contents = found.iter().take(PAGE).map(|(key, object)| {
        format!(
            "<Contents><Key>{key}</Key><Size>{}</Size><ETag>{}</ETag>\
             <LastModified>2026-11-20T14:00:00Z</LastModified></Contents>",
            object.len(),
            tag(object).replace('"', "&quot;"),
        )
    });
    let contents: String = contents.collect();
    let more = match found.get(PAGE) {
        Some(_) => {
            let last = found[PAGE - 1].0;
            format!("<NextContinuationToken>{last}</NextContinuationToken>")
        }
        None => String::new(),
    };
    format!("<ListBucketResult>{contents}{more}</ListBucketResult>")
}

fn tag(object: &[u8]) -> String {
    let sum = object.iter().fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("\"{sum:x}\"")
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}
