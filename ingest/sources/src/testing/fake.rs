//! Fakes of Mixpanel's and Amplitude's export APIs on a loopback address, with injected faults.

use super::generate::lines;
use crate::{Format, instant};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use millrace_rows::Micros;
use reqwest::Url;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Cursor, Read as _, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use zip::write::SimpleFileOptions;

const MICROS_PER_HOUR: i64 = 3_600_000_000;
const SEED: u64 = 1;

/// Service whose API is faked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Days as compressed lines.
    Mixpanel,
    /// Hours as zips.
    Amplitude,
}

/// Fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Status 429, with seconds in `Retry-After`, if any.
    Throttled(Option<u64>),
    /// Another status.
    Status(u16),
    /// The connection is cut after this share of the body, in percent, despite a `Content-Length`.
    Cut(u8),
    /// The connection is cut after this share of the body, in percent, and without a
    /// `Content-Length`, so that the response seems complete.
    CutWithoutLength(u8),
    /// The response stalls after this share of the body, in percent, with the connection open.
    Stall(u8),
    /// The service gives up in the middle, with a message among the lines.
    GivesUp,
    /// The response is not compressed.
    Uncompressed,
}

/// A running fake API. It ends with the process.
#[derive(Debug)]
pub struct FakeApi {
    /// URL of the API.
    pub url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    service: Service,
    events_per_part: u64,
    faults: VecDeque<Fault>,
    empty: Vec<String>,
    requests: Vec<String>,
}

impl FakeApi {
    /// Starts an API with this number of events for each hour (Amplitude) or day (Mixpanel).
    ///
    /// # Panics
    /// There is no free port.
    #[must_use]
    pub fn start(service: Service, events_per_part: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State {
            service,
            events_per_part,
            faults: VecDeque::new(),
            empty: Vec::new(),
            requests: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { url, state }
    }

    /// Sets the faults of the next responses; later ones have none.
    pub fn expect(&self, faults: &[Fault]) {
        self.state().faults.extend(faults);
    }

    /// Removes the events of a day (`2024-05-01`) or an hour (`20240501T13`).
    pub fn empty(&self, from: &str) {
        self.state().empty.push(from.to_owned());
    }

    /// Requests so far: path and query, then the authorization after a space.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Lines of a day or an hour.
    #[must_use]
    pub fn lines(&self, from: &str) -> Vec<u8> {
        let state = self.state();
        lines_of(&state, from)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with it")
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let target = head.split(' ').nth(1).unwrap_or("/");
    let authorization = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("authorization").then_some(value)
    });
    let (fault, response) = {
        let mut state = state.lock().expect("no test panics with it");
        state
            .requests
            .push(format!("{target} {}", authorization.unwrap_or_default()));
        let fault = state.faults.pop_front().unwrap_or(Fault::None);
        (fault, respond(&state, target, fault))
    };
    // The client may have closed the connection.
    let _ = send(stream, fault, &response);
}

struct FakeResponse {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

fn respond(state: &State, target: &str, fault: Fault) -> FakeResponse {
    let refusal = |status: u16, headers: String, body: &str| FakeResponse {
        status,
        headers,
        body: body.as_bytes().to_vec(),
    };
    match fault {
        Fault::Throttled(after) => {
            let headers = after.map_or(String::new(), |after| format!("retry-after: {after}\r\n"));
            return refusal(429, headers, "Rate limit exceeded");
        }
        Fault::Status(status) => return refusal(status, String::new(), "Something is wrong"),
        _ => {}
    }
    let url = Url::parse(&format!("http://fake{target}")).expect("a target");
    let query = |name: &str| {
        url.query_pairs()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    };
    let (from, until) = match state.service {
        Service::Mixpanel => (query("from_date"), query("to_date")),
        Service::Amplitude => (query("start"), query("end")),
    };
    let (Some(from), Some(until)) = (from, until) else {
        return refusal(400, String::new(), "no range");
    };
    let mut text = Vec::new();
    for unit in units(state.service, &from, &until) {
        text.extend(lines_of(state, &unit));
    }
    match state.service {
        Service::Mixpanel => mixpanel(text, fault),
        Service::Amplitude if text.is_empty() => refusal(404, String::new(), "Not found"),
        Service::Amplitude => FakeResponse {
            status: 200,
            headers: "content-type: application/zip\r\n".to_owned(),
            body: zipped(&from, &text),
        },
    }
}

fn mixpanel(mut text: Vec<u8>, fault: Fault) -> FakeResponse {
    if fault == Fault::GivesUp {
        text.truncate(text.len() / 2);
        let end = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        text.truncate(end);
        text.extend_from_slice(b"terminated early\n");
    }
    let is_plain = fault == Fault::Uncompressed || text.is_empty();
    FakeResponse {
        status: 200,
        headers: if is_plain {
            String::new()
        } else {
            "content-encoding: gzip\r\n".to_owned()
        },
        body: if is_plain { text } else { gzipped(&text) },
    }
}

/// Days or hours of a range.
fn units(service: Service, from: &str, until: &str) -> Vec<String> {
    let mut units = Vec::new();
    let mut at = start(service, from);
    let end = start(service, until);
    while at <= end {
        let mut text = Vec::new();
        crate::time::write(&mut text, at);
        let text = String::from_utf8(text).expect("times are ASCII");
        let (unit, hours) = match service {
            Service::Mixpanel => (text[..10].to_owned(), 24),
            Service::Amplitude => (text[..13].replace('-', ""), 1),
        };
        units.push(unit);
        at = at.plus_micros(hours * MICROS_PER_HOUR);
    }
    units
}

fn start(service: Service, unit: &str) -> Micros {
    let text = match service {
        Service::Mixpanel => unit.to_owned(),
        Service::Amplitude => format!("{unit}0000Z"),
    };
    instant::iso(&text, &TimeZone::UTC).expect("a day or an hour")
}

fn lines_of(state: &State, unit: &str) -> Vec<u8> {
    if state.empty.iter().any(|empty| empty == unit) {
        return Vec::new();
    }
    let from = start(state.service, unit);
    let (format, hours) = match state.service {
        Service::Mixpanel => (Format::Mixpanel, 24),
        Service::Amplitude => (Format::Amplitude, 1),
    };
    let first = from.0.unsigned_abs() / MICROS_PER_HOUR.unsigned_abs() * state.events_per_part;
    lines(
        format,
        SEED,
        first,
        state.events_per_part,
        from,
        hours * MICROS_PER_HOUR,
    )
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// Makes a zip like Amplitude's: a folder with the project's number, and in it compressed lines.
fn zipped(hour: &str, text: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let (one, other) = text.split_at(text.len() / 2);
    let cut = one
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    for (index, lines) in [&one[..cut], &[&one[cut..], other].concat()]
        .into_iter()
        .enumerate()
    {
        let name = format!("123456/123456_{hour}#{index}.json.gz");
        let stored =
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        archive.start_file(name, stored).expect("a name");
        archive
            .write_all(&gzipped(lines))
            .expect("memory takes all");
    }
    archive.finish().expect("memory takes all").into_inner()
}

fn send(mut stream: &TcpStream, fault: Fault, response: &FakeResponse) -> std::io::Result<()> {
    let length = match fault {
        Fault::CutWithoutLength(_) => String::new(),
        _ => format!("content-length: {}\r\n", response.body.len()),
    };
    let head = format!(
        "HTTP/1.1 {} X\r\n{}{length}connection: close\r\n\r\n",
        response.status, response.headers
    );
    stream.write_all(head.as_bytes())?;
    let share = match fault {
        Fault::Cut(share) | Fault::CutWithoutLength(share) | Fault::Stall(share) => {
            usize::from(share)
        }
        _ => 100,
    };
    let sent = response.body.len() * share / 100;
    stream.write_all(&response.body[..sent])?;
    if let Fault::Stall(_) = fault {
        // Until the client closes the connection.
        stream.read_exact(&mut [0])?;
    }
    stream.shutdown(Shutdown::Write)
}
