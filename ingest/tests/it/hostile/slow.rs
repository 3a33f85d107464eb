//! Slow clients that hold connections: silent, slow, half closed, or not reading.

use crate::client::{Client, request};
use crate::test_env::{KEY, TestEnv, batch};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::Shutdown;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(500);
/// Time that a bounded wait may take on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections of each kind that are open at the same time.
const EACH: usize = 500;

/// Raises the limit of open files of this process, which is both ends of every connection.
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

fn hasty() -> TestEnv {
    TestEnv::with(|options| {
        options.wait_at_most(SHORT);
        options.server.limits.connections_per_address_max = 10_000;
    })
}

#[test]
fn slow_senders_of_every_kind_are_closed_and_delay_no_other() {
    raise_open_files(5 * EACH as u64 * 2);
    let env = hasty();
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
            let mut client = env.client();
            client.send(bytes);
            slow.push((kind, status, client));
        }
    }
    let mut good = env.client();
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
    assert_eq!(env.rows().events.len(), 100);
}

/// Sends piece by piece, with pauses, until a response comes; returns its status, or `None` if it
/// takes too long.
fn dribble(client: &mut Client, piece: &[u8], pause: Duration, most: Duration) -> Option<u16> {
    let mut reader = client.try_clone();
    std::thread::scope(|scope| {
        let status = scope.spawn(move || reader.reads_status());
        let started = Instant::now();
        while !status.is_finished() && started.elapsed() < most {
            client.send(piece);
            std::thread::sleep(pause);
        }
        if !status.is_finished() {
            client.shut(Shutdown::Both);
        }
        status.join().unwrap()
    })
}

#[test]
fn a_body_that_came_quickly_at_first_has_to_go_on_coming() {
    let env = hasty();
    let mut client = env.client();
    client.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n");
    // On the mean that is fast enough for three minutes.
    client.send(&[b' '; 100_000]);
    let status = dribble(&mut client, b" ", SHORT / 10, TEST_TIMEOUT);
    assert_eq!(status, Some(408));
}

#[test]
fn a_body_that_goes_on_coming_is_cut_off_in_the_end() {
    let env = TestEnv::with(|options| options.server.limits.body_timeout = 2 * SHORT);
    let mut client = env.client();
    client.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 20000000\r\n\r\n");
    let status = dribble(&mut client, &[b' '; 1_000], SHORT / 10, TEST_TIMEOUT);
    assert_eq!(status, Some(408));
}

#[test]
fn a_body_that_comes_slowly_and_steadily_is_taken() {
    let env = TestEnv::with(|options| {
        options.server.limits.body_stall_timeout = 3 * SHORT;
        options.server.limits.body_hold = SHORT / 10;
        options.server.limits.body_slow_after = SHORT / 10;
    });
    let whole = request("POST", "/batch/", &[], batch(&["slow"; 40]).as_bytes());
    let mut client = env.client();
    // Some 1.3 kB a second, for two windows.
    for piece in whole.chunks(whole.len() / 30 + 1) {
        client.send(piece);
        std::thread::sleep(SHORT / 5);
    }
    assert_eq!(client.read().status, 200);
    assert_eq!(env.rows().events.len(), 40);
}

/// Regression: fifty connections held the whole budget of bodies for hours.
#[test]
fn bodies_that_are_nearly_complete_leave_budget_for_others() {
    const BODY_BYTES: usize = 1 << 20;
    let env = TestEnv::with(|options| {
        options.server.limits.in_flight_bytes_max = 8 * BODY_BYTES;
        options.server.limits.body_hold = SHORT / 5;
        options.server.limits.body_slow_after = SHORT / 5;
    });
    let started = Instant::now();
    let hold_on = || {
        let whole = request("POST", "/batch/", &[], &[b' '; BODY_BYTES]);
        let mut client = env.client();
        client.send(&whole[..whole.len() - 1_000]);
        dribble(&mut client, b" ", SHORT / 10, 6 * SHORT);
    };
    let large = |key: &str| {
        let mut body = batch(&["large"]).replace(KEY, key).into_bytes();
        body.resize(BODY_BYTES, b' ');
        env.post("/batch/", &body).status
    };
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(hold_on);
        }
        while started.elapsed() < 5 * SHORT {
            assert_eq!(env.post("/e/", batch(&["small"])).status, 200);
            assert_eq!(large(KEY), 200);
        }
    });
    assert_eq!(large("phc_nobodys"), 401, "all of it came back");
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let env = hasty();
    let requests = request("GET", "/array/phc_x/config", &[], b"").repeat(1_000);
    let mut deaf = env.client();
    // Sooner or later nothing more fits between us, and the server stops reading as well.
    while deaf.sends(&requests) {}
    assert_eq!(env.post("/e/", batch(&["e"])).status, 200);
}

/// A dry run of events that all have a result, of 92 bytes each.
fn many_results() -> Vec<u8> {
    const EVENTS: usize = 50_000;
    let event = |number| format!(r#"{{"uuid":"01990000-0000-7000-8000-{number:012}"}}"#);
    let events: Vec<String> = (0..EVENTS).map(event).collect();
    let body = format!(
        r#"{{"created_at":"2026-11-20T14:38:00Z","batch":[{}]}}"#,
        events.join(",")
    );
    let key = format!("Bearer {KEY}");
    request(
        "POST",
        "/i/v1/analytics/events?dry_run=true",
        &[("Authorization", &key)],
        body.as_bytes(),
    )
}

/// Regression: a response stayed in memory for as long as the body of the next request came.
#[test]
fn an_answer_that_nobody_reads_is_cut() {
    let env = TestEnv::with(|options| options.server.limits.write_timeout = SHORT);
    let mut deaf = env.client();
    deaf.shrink_receive_buffer();
    deaf.send(&many_results());
    deaf.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n{");
    // More than the lowest speed of a body, so nothing else ends it.
    let started = Instant::now();
    while deaf.sends(&[b' '; 100]) {
        assert!(started.elapsed() < TEST_TIMEOUT, "it is held");
        std::thread::sleep(SHORT / 10);
    }
    let mut answer = env.client();
    answer.send(&many_results());
    let answer = answer.read();
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() > 3 << 20, "{}", answer.body.len());
}

/// Regression: a response that was being read was cut after the time of an idle connection, or of a
/// head where the next one had begun.
#[test]
fn an_answer_that_is_read_slowly_is_read_to_its_end() {
    let env = TestEnv::with(|options| {
        options.server.limits.idle_timeout = SHORT;
        options.server.limits.header_timeout = SHORT;
    });
    let table: [(&[u8], Option<u16>); 2] = [(b"", None), (b"POST /e/ HT", Some(408))];
    // Made before, as an idle connection is closed soon.
    let many_results = many_results();
    for (next, status) in table {
        let mut slow = env.client();
        slow.send(&many_results);
        slow.send(next);
        slow.wait();
        // Much of it waits meanwhile, for longer than a connection may be idle.
        std::thread::sleep(4 * SHORT);
        let answer = slow.read();
        assert_eq!(answer.status, 200);
        assert!(answer.body.len() > 3 << 20, "{}", answer.body.len());
        // From then on the connection has its usual time.
        assert_eq!(slow.reads_status(), status);
    }
}

#[test]
fn a_half_closed_connection_with_half_a_request_is_closed_at_once() {
    // No request here waits for a deadline: deadlines are those of the contract, minutes long.
    let env = TestEnv::start();
    let pieces: [&[u8]; 6] = [
        b"",
        b"POST",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nContent-",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n{",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ];
    for piece in pieces {
        let mut client = env.client();
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
fn a_peer_that_closed_its_connection_loses_only_its_own_request() {
    let env = TestEnv::start();
    let whole = request("POST", "/e/", &[], batch(&["gone"]).as_bytes());
    for _ in 0..200 {
        let mut client = env.client();
        client.send(&whole);
        client.shut(Shutdown::Both);
    }
    assert_eq!(env.post("/e/", batch(&["here"])).status, 200);
    assert!(env.rows().names().contains(&"here"));
}
