//! The export APIs of Mixpanel and Amplitude on a loopback address, with what goes wrong in life.

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

/// Whose API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Days as compressed lines.
    Mixpanel,
    /// Hours as zips.
    Amplitude,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// It is answered as it should be.
    None,
    /// 429, and when to ask again, in seconds, if that is said.
    Throttled(Option<u64>),
    /// Another status.
    Status(u16),
    /// The connection is cut after this share of the answer, in hundredths, though a length was said.
    Cut(u8),
    /// The same where no length was said, so that the end of the connection seems to be that of the answer.
    CutWithoutLength(u8),
    /// After this share of the answer, in hundredths, nothing comes any more, and the connection stays.
    Stall(u8),
    /// The service gives up in the middle, and says so among the lines.
    GivesUp,
    /// It is answered without compression.
    Uncompressed,
}

/// A running API. It ends with the process.
#[derive(Debug)]
pub struct FakeApi {
    /// Where it is.
    pub url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    service: Service,
    events_per_part: u64,
    mishaps: VecDeque<Mishap>,
    empty: Vec<String>,
    requests: Vec<String>,
}

impl FakeApi {
    /// Starts one whose parts of an hour (Amplitude) or a day (Mixpanel) have so many events.
    ///
    /// # Panics
    /// When there is no port.
    #[must_use]
    pub fn start(service: Service, events_per_part: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State {
            service,
            events_per_part,
            mishaps: VecDeque::new(),
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

    /// What becomes of the next requests; all behind them are answered as they should be.
    pub fn expect(&self, mishaps: &[Mishap]) {
        self.state().mishaps.extend(mishaps);
    }

    /// There are no events on this day (`2024-05-01`) or in this hour (`20240501T13`).
    pub fn empty(&self, from: &str) {
        self.state().empty.push(from.to_owned());
    }

    /// The requests so far: path, query, and authorization behind a space.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// The lines that this day or hour has.
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
    let (mishap, answer) = {
        let mut state = state.lock().expect("no test panics with it");
        state
            .requests
            .push(format!("{target} {}", authorization.unwrap_or_default()));
        let mishap = state.mishaps.pop_front().unwrap_or(Mishap::None);
        (mishap, answer(&state, target, mishap))
    };
    // A client that went away is its own affair.
    let _ = send(stream, mishap, &answer);
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

fn answer(state: &State, target: &str, mishap: Mishap) -> Answer {
    let refusal = |status: u16, headers: String, body: &str| Answer {
        status,
        headers,
        body: body.as_bytes().to_vec(),
    };
    match mishap {
        Mishap::Throttled(after) => {
            let headers = after.map_or(String::new(), |after| format!("retry-after: {after}\r\n"));
            return refusal(429, headers, "Rate limit exceeded");
        }
        Mishap::Status(status) => return refusal(status, String::new(), "Something is wrong"),
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
        Service::Mixpanel => mixpanel(text, mishap),
        Service::Amplitude if text.is_empty() => refusal(404, String::new(), "Not found"),
        Service::Amplitude => Answer {
            status: 200,
            headers: "content-type: application/zip\r\n".to_owned(),
            body: zipped(&from, &text),
        },
    }
}

fn mixpanel(mut text: Vec<u8>, mishap: Mishap) -> Answer {
    if mishap == Mishap::GivesUp {
        text.truncate(text.len() / 2);
        let end = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        text.truncate(end);
        text.extend_from_slice(b"terminated early\n");
    }
    let is_plain = mishap == Mishap::Uncompressed || text.is_empty();
    Answer {
        status: 200,
        headers: if is_plain {
            String::new()
        } else {
            "content-encoding: gzip\r\n".to_owned()
        },
        body: if is_plain { text } else { gzipped(&text) },
    }
}

/// The days or hours of a range.
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

/// As Amplitude does it: a folder by the project's number, and in it compressed lines.
fn zipped(hour: &str, text: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let (one, other) = text.split_at(text.len() / 2);
    let cut = one
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    for (place, lines) in [&one[..cut], &[&one[cut..], other].concat()]
        .into_iter()
        .enumerate()
    {
        let name = format!("123456/123456_{hour}#{place}.json.gz");
        let stored =
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        archive.start_file(name, stored).expect("a name");
        archive
            .write_all(&gzipped(lines))
            .expect("memory takes all");
    }
    archive.finish().expect("memory takes all").into_inner()
}

fn send(mut stream: &TcpStream, mishap: Mishap, answer: &Answer) -> std::io::Result<()> {
    let length = match mishap {
        Mishap::CutWithoutLength(_) => String::new(),
        _ => format!("content-length: {}\r\n", answer.body.len()),
    };
    let head = format!(
        "HTTP/1.1 {} X\r\n{}{length}connection: close\r\n\r\n",
        answer.status, answer.headers
    );
    stream.write_all(head.as_bytes())?;
    let share = match mishap {
        Mishap::Cut(share) | Mishap::CutWithoutLength(share) | Mishap::Stall(share) => {
            usize::from(share)
        }
        _ => 100,
    };
    let sent = answer.body.len() * share / 100;
    stream.write_all(&answer.body[..sent])?;
    if let Mishap::Stall(_) = mishap {
        // Until the client has had enough.
        stream.read_exact(&mut [0])?;
    }
    stream.shutdown(Shutdown::Write)
}
