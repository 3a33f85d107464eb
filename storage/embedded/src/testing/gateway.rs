//! Gateways before a ClickHouse whose answers are not the server's own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Starts a gateway that answers every request with status 200 and a page of its own, and returns
/// its URL.
pub fn gateway_with_page(page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_with_page(stream, page));
        }
    });
    format!("http://{address}")
}

fn answer_with_page(mut stream: TcpStream, page: &str) {
    let mut request = vec![0; 64 << 10];
    if stream.read(&mut request).is_ok_and(|count| count > 0) {
        let length = page.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
        let _ = stream.write_all(format!("{head}\r\n\r\n{page}").as_bytes());
        // Read to the end, so that the answer is not lost with the connection.
        while stream.read(&mut request).is_ok_and(|count| count > 0) {}
    }
}

/// Starts a gateway before the server at `url` that caches: each request whose body contains `text`
/// is answered as the first of them was, and others by the server. Returns its URL.
pub fn gateway_repeating(url: &str, text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    let server = url.trim_start_matches("http://").trim_end_matches('/');
    let server = server.to_owned();
    let first = Arc::new(Mutex::new(None));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (server, first) = (server.clone(), Arc::clone(&first));
            thread::spawn(move || repeat_answer(stream, &server, text, &first));
        }
    });
    format!("http://{address}")
}

fn repeat_answer(
    mut client: TcpStream,
    server: &str,
    text: &str,
    first: &Mutex<Option<Vec<u8>>>,
) -> Option<()> {
    let request = read_request(&mut client)?;
    let is_repeated = String::from_utf8_lossy(&request).contains(text);
    let mut first = is_repeated.then(|| first.lock().unwrap_or_else(PoisonError::into_inner));
    let kept = first.as_ref().and_then(|kept| (**kept).clone());
    let answer = match kept {
        Some(answer) => answer,
        None => {
            let mut upstream = TcpStream::connect(server).ok()?;
            upstream.write_all(&request).ok()?;
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer).ok()?;
            if let Some(first) = &mut first {
                **first = Some(answer.clone());
            }
            answer
        }
    };
    client.write_all(&answer).ok()
}

/// Reads a request to its end, and adds that the connection is closed after it.
fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut request, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let end = request.windows(4).position(|it| it == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(request.get(..end)?).to_lowercase();
            let length = head
                .lines()
                .find_map(|it| it.strip_prefix("content-length: "));
            let length = length.map_or(Some(0), |length| length.parse::<usize>().ok())?;
            if request.len() >= end + 4 + length {
                drop(request.splice(end..end, *b"\r\nConnection: close"));
                return Some(request);
            }
        }
        let count = client.read(&mut piece).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(piece.get(..count)?);
    }
}
