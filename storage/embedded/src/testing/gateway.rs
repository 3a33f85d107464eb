//! Gateway that is no ClickHouse.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
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
