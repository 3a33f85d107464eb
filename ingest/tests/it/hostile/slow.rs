//! Clients that hold connections: silent, slow, half gone, or deaf.

use crate::client::{Client, request};
use crate::stand::{Stand, batch};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::Shutdown;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(500);
/// Connections of each kind that hold on at the same time.
const EACH: usize = 500;

/// Lets this process, which is both ends of every connection, have as many files as it may.
fn raise_open_files(needed: u64) {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    assert!(
        most > needed,
        "{needed} open files are needed, {most} allowed"
    );
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

fn hasty() -> Stand {
    Stand::with(|options| {
        options.wait_at_most(SHORT);
        options.server.limits.connections_per_address_max = 10_000;
    })
}

#[test]
fn slow_senders_of_every_kind_are_closed_and_keep_nobody_waiting() {
    raise_open_files(5 * EACH as u64 * 2);
    let stand = hasty();
    let whole = request("POST", "/batch/", &[], batch(&["slow"]).as_bytes());
    let head_end = whole.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let chunked = b"POST /e/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{";
    let kinds: [(&str, &[u8], u16); 5] = [
        ("silent", b"", 0),
        ("half a request line", b"POST /ba", 408),
        ("half a head", &whole[..head_end - 3], 408),
        ("half a body", &whole[..head_end + 20], 408),
        ("half a chunk", chunked, 408),
    ];
    let mut slow: Vec<(&str, u16, Client)> = Vec::new();
    for _ in 0..EACH {
        for (kind, bytes, status) in kinds {
            let mut client = stand.client();
            client.send(bytes);
            slow.push((kind, status, client));
        }
    }
    let mut good = stand.client();
    for number in 0..100 {
        let answer = good.post("/e/", &[], batch(&["good"]).as_bytes());
        assert_eq!(answer.status, 200, "{number}");
    }
    for (kind, status, mut client) in slow {
        if status != 0 {
            assert_eq!(client.read().status, status, "{kind}");
        }
        assert!(client.is_closed(), "{kind}");
    }
    assert_eq!(stand.rows().events.len(), 100);
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let stand = hasty();
    let requests = request("GET", "/array/phc_x/config", &[], b"").repeat(1_000);
    let mut deaf = stand.client();
    // Sooner or later nothing more fits between us, and the server stops reading as well.
    while deaf.sends(&requests) {}
    assert_eq!(stand.post("/e/", batch(&["e"])).status, 200);
}

#[test]
fn a_peer_that_is_half_gone_is_let_go_at_once() {
    // Nothing here waits for a deadline: they are those of the contract, and minutes long.
    let stand = Stand::start();
    let pieces: [&[u8]; 6] = [
        b"",
        b"POST",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nContent-",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n{",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ];
    for piece in pieces {
        let mut client = stand.client();
        client.send(piece);
        client.finish();
        assert!(
            !client.reads_success(),
            "{}",
            String::from_utf8_lossy(piece)
        );
    }
}

#[test]
fn a_peer_that_has_hung_up_costs_nothing_but_its_own_request() {
    let stand = Stand::start();
    let whole = request("POST", "/e/", &[], batch(&["gone"]).as_bytes());
    for _ in 0..200 {
        let mut client = stand.client();
        client.send(&whole);
        client.shut(Shutdown::Both);
    }
    assert_eq!(stand.post("/e/", batch(&["here"])).status, 200);
    assert!(stand.rows().names().contains(&"here"));
}
