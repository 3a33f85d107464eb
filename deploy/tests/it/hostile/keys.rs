//! Unknown keys of every form. `make torture` sends ten million, by `MILLRACE_RANDOM_KEYS`, which
//! would take gigabytes if they were cached.

use super::{MIB, TEST_TIMEOUT, batch, connect, ingest, memory};
use crate::server::Server;
use millrace_catalog::key::{ProjectKeyForm, generate_project_key};
use millrace_rows::testing::number_from_env;
use rand::RngExt;
use rand::distr::Alphanumeric;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use tempfile::TempDir;

const KEYS: u64 = 60_000;
const CONNECTIONS: usize = 16;
/// Requests sent before responses are read.
const PIPELINED: usize = 50;
/// Tolerated growth of memory by cached keys and requests.
const GROWTH_BYTES_MAX: usize = 64 * MIB;

/// Random key of one of the forms, which no project has.
fn random_key(number: usize) -> String {
    let mut rng = rand::rng();
    let mut random = |chars| -> String {
        let chars = (&mut rng).sample_iter(Alphanumeric).take(chars);
        chars.map(char::from).collect()
    };
    let (key, form) = match number % 3 {
        0 => (generate_project_key().unwrap(), ProjectKeyForm::Ours),
        1 => (format!("phc_{}", random(43)), ProjectKeyForm::WrongChecksum),
        _ => (random(32), ProjectKeyForm::Foreign),
    };
    assert_eq!(ProjectKeyForm::of(&key), form, "{key}");
    key
}

/// Client that sends wrong keys, and now and then the right one.
struct Client {
    stream: TcpStream,
    right: String,
    received: Vec<u8>,
}

impl Client {
    fn new(server: &Server) -> Self {
        let right = request(&batch(server));
        let stream = connect(server);
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        Self {
            stream,
            right,
            received: Vec::new(),
        }
    }

    fn try_keys(&mut self, count: usize) {
        for first in (0..count).step_by(PIPELINED) {
            let wrong = PIPELINED.min(count - first);
            let mut sent = String::new();
            for number in first..first + wrong {
                let key = random_key(number);
                sent += &request(&format!(r#"{{"api_key":"{key}","event":"e"}}"#));
            }
            sent += &self.right;
            self.stream.write_all(sent.as_bytes()).unwrap();
            let statuses = self.answers(wrong + 1);
            let (last, others) = statuses.split_last().unwrap();
            assert_eq!(*last, 200, "the right key is known all the time");
            assert!(others.iter().all(|status| *status == 401), "{others:?}");
        }
    }

    /// Statuses of the next `count` responses.
    fn answers(&mut self, count: usize) -> Vec<u16> {
        self.received.clear();
        let mut statuses = Vec::new();
        let mut from = 0;
        while statuses.len() < count {
            let mut piece = [0; 1 << 14];
            let bytes = self.stream.read(&mut piece).unwrap();
            assert_ne!(bytes, 0, "it stays open");
            self.received.extend_from_slice(&piece[..bytes]);
            while let Some((status, length)) = answer(&self.received[from..]) {
                statuses.push(status);
                from += length;
            }
        }
        statuses
    }
}

fn request(body: &str) -> String {
    let length = body.len();
    format!("POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Status and length of the first response in a buffer, if it is complete.
fn answer(bytes: &[u8]) -> Option<(u16, usize)> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let head = head.to_ascii_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    let whole = rest.len() >= length;
    whole.then(|| (head[9..12].parse().unwrap(), head.len() + 4 + length))
}

fn try_keys(clients: &mut [Client], count: usize) {
    let each = count / clients.len();
    std::thread::scope(|scope| {
        for client in clients {
            scope.spawn(move || client.try_keys(each));
        }
    });
}

#[test]
fn unknown_keys_take_bounded_memory_however_many_come() {
    let keys = number_from_env("MILLRACE_RANDOM_KEYS", KEYS) as usize;
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| Client::new(&server)).collect();
    try_keys(&mut clients, 1_000);
    let before = memory(&server, "VmRSS");
    let started = Instant::now();
    for tenth in 1..=10 {
        try_keys(&mut clients, keys / 10);
        let now = memory(&server, "VmRSS");
        eprintln!(
            "{} keys of nobody: {} MiB, before {} MiB; {:.0} a second",
            keys / 10 * tenth,
            now / MIB,
            before / MIB,
            (keys / 10 * tenth) as f64 / started.elapsed().as_secs_f64(),
        );
        assert!(now < before + GROWTH_BYTES_MAX, "{before}, then {now}");
    }
}
