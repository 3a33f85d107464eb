//! Servers of a test's own, and what happens on the way from others: transfers that break off or stall, refusals.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The head of a request; those of fetches have no body, but for queries of ClickHouse.
pub struct Head {
    pub target: String,
    lines: Vec<String>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What becomes of an answer.
pub enum Mishap {
    None,
    /// The connection is cut after so many bytes of its body.
    Cut(usize),
    /// Nothing comes any more after so many bytes of its body, and the connection stays.
    Stall(usize),
    /// It is another one.
    Answer(&'static str),
    /// Something happens before it is asked for.
    After(Box<dyn FnOnce() + Send>),
}

/// Starts a server that answers each request with these bytes, and hangs up. It ends with the test's process.
pub fn serve(answer: impl Fn(&Head, &[u8]) -> (Vec<u8>, Mishap) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let (head, body) = read(&stream)?;
                let (bytes, mishap) = answer(&head, &body);
                // A client that went away is its own affair.
                send(&stream, &bytes, &mishap).ok()
            });
        }
    });
    url
}

fn read(stream: &TcpStream) -> Option<(Head, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let head = Head {
        target: lines.first()?.split(' ').nth(1)?.to_owned(),
        lines,
    };
    let length = head.header("content-length").unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn send(mut stream: &TcpStream, bytes: &[u8], mishap: &Mishap) -> std::io::Result<()> {
    let head_bytes = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let sent = match mishap {
        Mishap::Cut(body_bytes) | Mishap::Stall(body_bytes) => head_bytes + body_bytes,
        Mishap::Answer(answer) => return stream.write_all(answer.as_bytes()),
        Mishap::None | Mishap::After(_) => bytes.len(),
    };
    stream.write_all(&bytes[..sent.min(bytes.len())])?;
    if let Mishap::Stall(_) = mishap {
        stream.read_exact(&mut [0])?;
    }
    stream.shutdown(Shutdown::Both)
}

/// Stands between a client and a server.
pub struct Between {
    pub url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    mishaps: VecDeque<Mishap>,
    /// Of requests for what is harmed.
    passed: Vec<Passed>,
}

/// A request that went by.
#[derive(Clone)]
pub struct Passed {
    pub range: Option<String>,
    pub encoding: Option<String>,
    pub body: Vec<u8>,
}

impl Between {
    /// Before the server at this address; what it is to do harm to has this in its path.
    pub fn start(server: &str, harmed: &'static str) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let (shared, server) = (Arc::clone(&state), server.replace("http://", ""));
        let url = serve(move |head, body| {
            let mut mishap = Mishap::None;
            if decoded(&head.target).contains(harmed) {
                let mut state = shared.lock().unwrap();
                state.passed.push(Passed {
                    range: head.header("range").map(str::to_owned),
                    encoding: head.header("content-encoding").map(str::to_owned),
                    body: body.to_vec(),
                });
                mishap = state.mishaps.pop_front().unwrap_or(Mishap::None);
            }
            if let Mishap::After(event) = mishap {
                event();
                mishap = Mishap::None;
            }
            (pass_on(&server, head, body), mishap)
        });
        Self { url, state }
    }

    /// What becomes of the next answers; all behind them are as they should be.
    pub fn expect(&self, mishaps: impl IntoIterator<Item = Mishap>) {
        self.state.lock().unwrap().mishaps.extend(mishaps);
    }

    /// The requests so far.
    pub fn passed(&self) -> Vec<Passed> {
        self.state.lock().unwrap().passed.clone()
    }

    /// Of each of them: what part of the object it asked for.
    pub fn ranges(&self) -> Vec<Option<String>> {
        self.passed().into_iter().map(|it| it.range).collect()
    }
}

/// A text of a URL, as it is meant.
pub fn decoded(text: &str) -> String {
    let url = format!(
        "http://fake/?x={}",
        text.replace('+', "%2B").replace('&', "%26")
    );
    let url = reqwest::Url::parse(&url).unwrap();
    let (_, value) = url.query_pairs().next().unwrap();
    value.into_owned()
}

/// Asks the server, which hangs up afterwards.
pub fn pass_on(server: &str, head: &Head, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).unwrap();
    let lines = head.lines.iter().filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !name.eq_ignore_ascii_case("connection")
    });
    let mut request: String = lines.map(|line| format!("{line}\r\n")).collect();
    request += "connection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}
