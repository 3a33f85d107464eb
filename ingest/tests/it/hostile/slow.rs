//! Clients that hold connections: silent, slow, half gone, or deaf.

use crate::client::{Client, request};
use crate::stand::{KEY, Stand, batch};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::Shutdown;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(500);
/// How long what is bounded may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
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

/// Sends piece by piece, with pauses, until it is told something; nothing if that takes too long.
fn dribble(client: &mut Client, piece: &[u8], pause: Duration, most: Duration) -> Option<u16> {
    let mut answers = client.try_clone();
    std::thread::scope(|scope| {
        let answer = scope.spawn(move || answers.reads_status());
        let started = Instant::now();
        while !answer.is_finished() && started.elapsed() < most {
            client.send(piece);
            std::thread::sleep(pause);
        }
        if !answer.is_finished() {
            client.shut(Shutdown::Both);
        }
        answer.join().unwrap()
    })
}

#[test]
fn a_body_that_came_quickly_at_first_has_to_go_on_coming() {
    let stand = hasty();
    let mut client = stand.client();
    client.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n");
    // On the mean that is fast enough for three minutes.
    client.send(&[b' '; 100_000]);
    let status = dribble(&mut client, b" ", SHORT / 10, PATIENCE);
    assert_eq!(status, Some(408));
}

#[test]
fn a_body_that_goes_on_coming_has_an_end_all_the_same() {
    let stand = Stand::with(|options| options.server.limits.body_timeout = 2 * SHORT);
    let mut client = stand.client();
    client.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 20000000\r\n\r\n");
    let status = dribble(&mut client, &[b' '; 1_000], SHORT / 10, PATIENCE);
    assert_eq!(status, Some(408));
}

#[test]
fn a_body_that_comes_slowly_and_steadily_is_taken() {
    let stand = Stand::with(|options| {
        options.server.limits.body_stall_timeout = 3 * SHORT;
        options.server.limits.body_hold = SHORT / 10;
    });
    let whole = request("POST", "/batch/", &[], batch(&["slow"; 40]).as_bytes());
    let mut client = stand.client();
    // Some 1.3 kB a second, for two windows.
    for piece in whole.chunks(whole.len() / 30 + 1) {
        client.send(piece);
        std::thread::sleep(SHORT / 5);
    }
    assert_eq!(client.read().status, 200);
    assert_eq!(stand.rows().events.len(), 40);
}

/// Found by an attacker: fifty connections held all the room for bodies for hours.
#[test]
fn bodies_that_are_nearly_there_leave_room_for_others() {
    const BODY_BYTES: usize = 1 << 20;
    let stand = Stand::with(|options| {
        options.server.limits.in_flight_bytes_max = 8 * BODY_BYTES;
        options.server.limits.body_hold = SHORT / 5;
    });
    let started = Instant::now();
    let hold_on = || {
        let whole = request("POST", "/batch/", &[], &[b' '; BODY_BYTES]);
        let mut client = stand.client();
        client.send(&whole[..whole.len() - 1_000]);
        dribble(&mut client, b" ", SHORT / 10, 6 * SHORT);
    };
    let large = |key: &str| {
        let mut body = batch(&["large"]).replace(KEY, key).into_bytes();
        body.resize(BODY_BYTES, b' ');
        stand.post("/batch/", &body).status
    };
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(hold_on);
        }
        while started.elapsed() < 5 * SHORT {
            assert_eq!(stand.post("/e/", batch(&["small"])).status, 200);
            assert_eq!(large(KEY), 200);
        }
    });
    assert_eq!(large("phc_nobodys"), 401, "all of it came back");
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
