//! Tests of the native protocol, by clickhouse-driver from PyPI in the tests' Python environment.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use millrace_embedded::testing::{PASSWORD, TestEngine};
use millrace_embedded::{PROJECT, QUERY, QueryKey, VIEWS, project_user, token_hash};
use socket2::{Domain, Socket, Type};

use crate::client::{machine_address, query};
use crate::python_client::{python, run};
use crate::users::change_users;

/// Longest wait for the end of a connection.
const DEADLINE: Duration = Duration::from_secs(20);
/// First byte of the answer to a hello: accepted, or an exception.
const ACCEPTED: u8 = 0;
const EXCEPTION: u8 = 2;

/// Connects and says nothing yet.
fn connect(address: (&str, u16)) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Connects to loopback from another address of this machine, by which the client is a stranger.
fn connect_from(ip: IpAddr, port: u16) -> TcpStream {
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(ip, 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.into()
}

/// Sends a hello, of a client before addenda, and returns the first byte of the answer.
fn say_hello(stream: &mut TcpStream, user: &str, password: &str) -> u8 {
    let mut hello = vec![0, 4];
    hello.extend_from_slice(b"test");
    // Version 26.7, revision 54 456.
    hello.extend_from_slice(&[26, 7, 0xb8, 0xa9, 0x03]);
    for text in ["", user, password] {
        hello.push(text.len() as u8);
        hello.extend_from_slice(text.as_bytes());
    }
    stream.write_all(&hello).unwrap();
    let mut first = [0xff];
    stream.read_exact(&mut first).unwrap();
    first[0]
}

/// Reads until the other side ends the connection, and returns what came.
fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    // One that is reset has ended, too.
    if let Err(error) = stream.read_to_end(&mut read) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "still open");
    }
    read
}

#[test]
fn the_native_protocol_serves_the_users_of_the_http_interface() {
    let engine = TestEngine::start_with_native();
    query(&engine, "CREATE DATABASE millrace");
    let port = engine.native_port().unwrap().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/check_clickhouse_driver.py");
    let arguments = [&port, &engine.user, &engine.password, PASSWORD];
    let out = run(Command::new(python()).arg(script).args(arguments));
    assert_eq!(out.trim(), "all is well");
    // Wrong passwords over this protocol would end an engine without a terminal.
    assert_eq!(query(&engine, "SELECT 1"), "1\n");
}

/// A client of this protocol chooses what `currentUser()` is, and sends settings with a statement.
#[test]
fn a_project_that_claims_to_be_another_user_sees_no_other_rows() {
    let engine = TestEngine::start_with_native();
    for sql in [
        "CREATE DATABASE millrace",
        "CREATE DATABASE project",
        "CREATE TABLE millrace.events (team_id Int64) ENGINE = MergeTree ORDER BY team_id",
        "INSERT INTO millrace.events VALUES (1), (2)",
        "CREATE TABLE project.tokens (hash String, team_id Int64) ENGINE = MergeTree ORDER BY hash",
    ] {
        query(&engine, sql);
    }
    let view = format!(
        "CREATE VIEW project.events DEFINER = {VIEWS} SQL SECURITY DEFINER AS SELECT * FROM millrace.events"
    );
    query(&engine, &view);
    let own = change_users(&engine, |users| users.rotate(&project_user(1)));
    let other = QueryKey::of(&engine.password).password(2);
    for (user, password, id) in [(PROJECT, &own, 1), (QUERY, &other, 2)] {
        let hash = token_hash(user, password);
        query(
            &engine,
            &format!("INSERT INTO project.tokens VALUES ('{hash}', {id})"),
        );
    }
    let second = engine.by(QUERY, &other);
    assert_eq!(query(&second, "SELECT team_id FROM project.events"), "2\n");
    let token = query(&second, "SELECT getSetting('query_cache_tag')");
    let port = engine.native_port().unwrap().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/check_secondary_query.py");
    let arguments = [port.as_str(), own.as_str(), token.trim()];
    let out = run(Command::new(python()).arg(script).args(arguments));
    assert_eq!(out.trim(), "all is well");
}

#[test]
fn a_connection_without_a_hello_is_ended_after_five_seconds() {
    let engine = TestEngine::start_with_native();
    let port = engine.native_port().unwrap();
    for begin in [&b""[..], b"\0", b"\0\x04te", b"GET / HTTP/1.1\r\n\r\n"] {
        let (mut stream, begun) = (connect(("127.0.0.1", port)), Instant::now());
        stream.write_all(begin).unwrap();
        read_to_end(&mut stream);
        assert!(begun.elapsed() < Duration::from_secs(10), "{begin:?}");
    }
    let mut stream = connect(("127.0.0.1", port));
    assert_eq!(say_hello(&mut stream, "reader", PASSWORD), ACCEPTED);
}

#[test]
fn connections_of_a_password_that_was_given_up_are_ended() {
    let engine = TestEngine::start_with_native();
    let port = engine.native_port().unwrap();
    // The default one of this user.
    query(&engine, "CREATE DATABASE project");
    let project = change_users(&engine, |users| users.rotate(&project_user(1)));
    let logged_in = |user: &str, password: &str| {
        let mut stream = connect(("127.0.0.1", port));
        assert_eq!(say_hello(&mut stream, user, password), ACCEPTED, "{user}");
        stream
    };
    let mut ended = [logged_in("reader", PASSWORD), logged_in(PROJECT, &project)];
    let mut kept = [
        logged_in("admin", PASSWORD),
        logged_in(&engine.user, &engine.password),
    ];
    change_users(&engine, |users| {
        users.rotate("reader");
        users.remove(&project_user(1));
    });
    for stream in &mut ended {
        read_to_end(stream);
    }
    let mut again = connect(("127.0.0.1", port));
    assert_eq!(say_hello(&mut again, "reader", PASSWORD), EXCEPTION);
    for stream in &mut kept {
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "ended");
    }
}

#[test]
fn the_servers_own_user_is_refused_from_elsewhere() {
    let Some(ip) = machine_address() else {
        eprintln!("NOT TESTED: this machine has loopback only");
        return;
    };
    let engine = TestEngine::start_with_native();
    let port = engine.native_port().unwrap();
    for (user, password, expected) in [
        ("reader", PASSWORD, ACCEPTED),
        ("admin", PASSWORD, ACCEPTED),
        ("millrace", engine.password.as_str(), EXCEPTION),
        ("default", "", EXCEPTION),
        ("project_views", "", EXCEPTION),
    ] {
        let mut stream = connect_from(ip, port);
        assert_eq!(say_hello(&mut stream, user, password), expected, "{user}");
        if expected == EXCEPTION {
            let text = String::from_utf8_lossy(&read_to_end(&mut stream)).into_owned();
            assert!(
                text.contains("may not come from this address"),
                "{user}: {text}"
            );
        }
    }
}
