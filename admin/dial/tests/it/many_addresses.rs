//! Names with many addresses: the first eight are dialled.

use crate::resolver::Scripted;
use millrace_dial::{DialError, Guard};
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Starts a server on an address of this machine that answers every request; returns its port.
async fn answering(address: &str) -> u16 {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Some clients only connect.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream
                .write_all(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n")
                .await;
        }
    });
    port
}

#[tokio::test]
async fn the_ninth_address_of_a_name_is_not_dialled() {
    let addresses: Vec<_> = (1..=12).map(|last| format!("127.0.0.{last}")).collect();
    let answer: Vec<_> = addresses.iter().map(String::as_str).collect();
    let guard = Guard::with_resolver(true, Scripted::new(&[answer.as_slice()])).unwrap();
    // Number of the address that is listened on.
    for (number, is_dialled) in [(1, true), (8, true), (9, false), (12, false)] {
        let port = answering(answer[number - 1]).await;
        let refused = Some(DialError::Connect(ErrorKind::ConnectionRefused));
        let expected = refused.filter(|_| !is_dialled);
        let connected = guard.connect("many.example", port).await;
        assert_eq!(connected.err(), expected, "address {number}");
        let url = format!("http://many.example:{port}/");
        let requested = guard.http_client().get(url).send().await;
        let error = requested.err().and_then(|error| DialError::of(&error));
        assert_eq!(error, expected, "address {number}, by HTTP");
    }
}
