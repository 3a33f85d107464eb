//! Fixture: HTTP servers, and a proxy whose transfers break off, stall or are rejected.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Head of a request.
pub struct RequestHead {
    pub target: String,
    lines: Vec<String>,
}

impl RequestHead {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Fault of a response.
pub enum ResponseFault {
    None,
    /// The connection is cut after so many bytes of the body.
    Cut(usize),
    /// The connection stalls after so many bytes of the body.
    Stall(usize),
    /// Another response is sent.
    Replace(&'static str),
    /// A function runs before the request is passed on.
    After(Box<dyn FnOnce() + Send>),
}

/// Starts a server that answers each request with these bytes, and closes the connection. It ends
/// with the test's process.
pub fn serve(
    answer: impl Fn(&RequestHead, &[u8]) -> (Vec<u8>, ResponseFault) + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let (head, body) = read(&stream)?;
                let (bytes, fault) = answer(&head, &body);
                // A client may close the connection early.
                send(&stream, &bytes, &fault).ok()
            });
        }
    });
    url
}

fn read(stream: &TcpStream) -> Option<(RequestHead, Vec<u8>)> {
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
    let head = RequestHead {
        target: lines.first()?.split(' ').nth(1)?.to_owned(),
        lines,
    };
    let length = head.header("content-length").unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn send(mut stream: &TcpStream, bytes: &[u8], fault: &ResponseFault) -> std::io::Result<()> {
    let head_bytes = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let sent = match fault {
        ResponseFault::Cut(body_bytes) | ResponseFault::Stall(body_bytes) => {
            head_bytes + body_bytes
        }
        ResponseFault::Replace(answer) => return stream.write_all(answer.as_bytes()),
        ResponseFault::None | ResponseFault::After(_) => bytes.len(),
    };
    stream.write_all(&bytes[..sent.min(bytes.len())])?;
    if let ResponseFault::Stall(_) = fault {
        stream.read_exact(&mut [0])?;
    }
    stream.shutdown(Shutdown::Both)
}

/// Proxy between a client and a server that injects faults.
pub struct FaultyProxy {
    pub url: String,
    state: Arc<Mutex<ProxyState>>,
}

#[derive(Default)]
struct ProxyState {
    faults: VecDeque<ResponseFault>,
    /// Requests for the faulty path.
    passed: Vec<RecordedRequest>,
}

/// Recorded request.
#[derive(Clone)]
pub struct RecordedRequest {
    pub range: Option<String>,
    pub encoding: Option<String>,
    pub body: Vec<u8>,
}

impl FaultyProxy {
    /// Starts a proxy of the server at this address; faults hit requests whose path contains
    /// `faulty_path`.
    pub fn start(server: &str, faulty_path: &'static str) -> Self {
        let state = Arc::<Mutex<ProxyState>>::default();
        let (shared, server) = (Arc::clone(&state), server.replace("http://", ""));
        let url = serve(move |head, body| {
            let mut fault = ResponseFault::None;
            if decoded(&head.target).contains(faulty_path) {
                let mut state = shared.lock().unwrap();
                state.passed.push(RecordedRequest {
                    range: head.header("range").map(str::to_owned),
                    encoding: head.header("content-encoding").map(str::to_owned),
                    body: body.to_vec(),
                });
                fault = state.faults.pop_front().unwrap_or(ResponseFault::None);
            }
            if let ResponseFault::After(event) = fault {
                event();
                fault = ResponseFault::None;
            }
            (pass_on(&server, head, body), fault)
        });
        Self { url, state }
    }

    /// Adds faults of the next responses; all later ones are unchanged.
    pub fn expect(&self, faults: impl IntoIterator<Item = ResponseFault>) {
        self.state.lock().unwrap().faults.extend(faults);
    }

    /// Recorded requests so far.
    pub fn passed(&self) -> Vec<RecordedRequest> {
        self.state.lock().unwrap().passed.clone()
    }

    /// Range header of each recorded request.
    pub fn ranges(&self) -> Vec<Option<String>> {
        self.passed().into_iter().map(|it| it.range).collect()
    }
}

/// Decodes a percent-encoded text of a URL.
pub fn decoded(text: &str) -> String {
    let url = format!(
        "http://fake/?x={}",
        text.replace('+', "%2B").replace('&', "%26")
    );
    let url = reqwest::Url::parse(&url).unwrap();
    let (_, value) = url.query_pairs().next().unwrap();
    value.into_owned()
}

/// Passes a request on to the server; returns the response.
pub fn pass_on(server: &str, head: &RequestHead, body: &[u8]) -> Vec<u8> {
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
