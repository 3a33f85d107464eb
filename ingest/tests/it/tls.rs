//! TLS on the listener for events and on that of probes, with clients of rustls.

use crate::client::{Client, request, socket};
use crate::test_env::{Options, TestEnv, batch};
use metrics_exporter_prometheus::PrometheusBuilder;
use millrace_ingest::{HealthServer, Readiness};
use millrace_tls::testing::{TestAuthority, renew};
use millrace_tls::{Reload, ServerTls};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// Time that a server with short limits waits for a client.
const SHORT: Duration = Duration::from_millis(300);
/// Time that no test waits for.
const LONG: Duration = Duration::from_secs(300);

/// Server with TLS, and the authority of its certificate.
struct TlsEnv {
    env: TestEnv,
    authority: TestAuthority,
}

impl TlsEnv {
    fn with(change: impl FnOnce(&mut Options)) -> Self {
        let authority = TestAuthority::new();
        let tls = ServerTls::load(authority.files("127.0.0.1")).unwrap();
        let env = TestEnv::with(|options| {
            options.server.tls = Some(tls);
            change(options);
        });
        Self { env, authority }
    }

    fn client(&self) -> TlsClient {
        connect(self.env.addr, self.authority.client(&[&TLS12, &TLS13]))
    }
}

/// Connects; the handshake is made with the first bytes.
fn connect(addr: SocketAddr, config: ClientConfig) -> TlsClient {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Client::of(StreamOwned::new(connection, socket(addr)))
}

#[test]
fn events_arrive_by_both_versions_on_connections_that_are_kept() {
    let tls = TlsEnv::with(|_| {});
    let mut expected = Vec::new();
    for (version, name) in [(&TLS12, "1.2"), (&TLS13, "1.3")] {
        let mut client = connect(tls.env.addr, tls.authority.client(&[version]));
        // One in a record, and a megabyte in many.
        for events in [1, 10_000] {
            let names = vec![name; events];
            let answer = client.post("/batch/", &[], batch(&names).as_bytes());
            assert_eq!(answer.status, 200, "{answer:?}");
            expected.extend(names);
        }
        let close = [("Connection", "close")];
        let answer = client.request("GET", "/_health/live", &close, b"");
        assert_eq!(answer.status, 200);
        // An end without the alert of TLS would be an error.
        assert!(client.is_closed());
    }
    assert_eq!(tls.env.rows().names().len(), expected.len());
}

#[test]
fn errors_without_a_handler_are_encrypted_too() {
    let tls = TlsEnv::with(|options| options.wait_at_most(SHORT));
    let mut client = tls.client();
    client.send(b"nonsense\r\n\r\n");
    let answer = client.read();
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (400, "malformed_request")
    );
    assert!(client.is_closed());
    let mut client = tls.client();
    client.send(b"GET / HTTP/1.1\r\nHost:");
    let answer = client.read();
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (408, "request_timeout")
    );
}

#[test]
fn http_without_tls_is_told_to_use_https() {
    let tls = TlsEnv::with(|_| {});
    for (method, target) in [("GET", "/"), ("POST", "/batch/")] {
        let mut client = tls.env.client();
        let answer = client.request(method, target, &[], batch(&["e"]).as_bytes());
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "https_required")
        );
        assert!(client.is_closed());
    }
    assert!(tls.env.rows().names().is_empty());
}

#[test]
fn slow_handshakes_are_ended_and_hold_nobody_up() {
    let tls = TlsEnv::with(|options| {
        options.wait_at_most(LONG);
        options.server.limits.handshakes.timeout = SHORT;
    });
    let mut slow: Vec<Client> = (0..50).map(|_| tls.env.client()).collect();
    for (number, client) in slow.iter_mut().enumerate() {
        // A half of them begins a record.
        if number % 2 == 0 {
            client.send(&[0x16, 3, 1, 1]);
        }
    }
    let answer = tls.client().request("GET", "/_health/live", &[], b"");
    assert_eq!(answer.status, 200);
    for client in &mut slow {
        assert!(client.is_closed());
    }
}

#[test]
fn a_handshake_gives_way_at_the_limit_of_connections() {
    let tls = TlsEnv::with(|options| {
        options.wait_at_most(LONG);
        options.server.limits.handshakes.timeout = LONG;
        options.server.limits.connections_max = 2;
        // One accepts them in their order.
        options.server.workers = 1;
    });
    let mut silent = [tls.env.client(), tls.env.client()];
    let answer = tls.client().request("GET", "/_health/live", &[], b"");
    assert_eq!(answer.status, 200);
    assert!(silent[0].is_closed());
}

#[test]
fn a_connection_over_the_limit_gets_its_503_behind_a_handshake() {
    let tls = TlsEnv::with(|options| options.server.limits.connections_max = 1);
    let mut busy = tls.client();
    busy.send(
        b"POST /e/ HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
    );
    // Its request is under way, so that it does not give way.
    assert_eq!(busy.reads_status(), Some(100));
    let answer = tls.client().request("GET", "/_health/live", &[], b"");
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some());
}

#[test]
fn a_new_certificate_ends_no_connection() {
    let (former, present) = (TestAuthority::new(), TestAuthority::new());
    let files = former.files("127.0.0.1");
    let tls = ServerTls::load(files.clone()).unwrap();
    let of_server = tls.clone();
    let env = TestEnv::with(|options| options.server.tls = Some(of_server));
    let event = batch(&["e"]);
    let mut before = connect(env.addr, former.client(&[&TLS13]));
    assert_eq!(before.post("/e/", &[], event.as_bytes()).status, 200);
    renew(&files, &present.files("127.0.0.1"));
    assert!(matches!(tls.reload(), Reload::Done));
    let mut after = connect(env.addr, present.client(&[&TLS13]));
    assert_eq!(after.post("/e/", &[], event.as_bytes()).status, 200);
    assert_eq!(before.post("/e/", &[], event.as_bytes()).status, 200);
}

#[test]
fn a_stop_finishes_requests_and_waits_for_no_handshake() {
    let mut tls = TlsEnv::with(|options| {
        options.server.limits.handshakes.timeout = LONG;
        options.server.grace = LONG;
    });
    let whole = request("POST", "/e/", &[], batch(&["last"]).as_bytes());
    let mut idle = tls.client();
    let first = batch(&["first"]);
    assert_eq!(idle.post("/e/", &[], first.as_bytes()).status, 200);
    let mut client = tls.client();
    client.send(&whole[..whole.len() - 5]);
    let mut silent = tls.env.client();
    tls.env.stop();
    client.send(&whole[whole.len() - 5..]);
    assert_eq!(client.read().status, 200);
    tls.env.join();
    assert!(idle.is_closed());
    assert!(silent.is_closed());
    assert_eq!(tls.env.rows().names(), ["first", "last"]);
}

#[test]
fn probes_need_no_certificate_where_clients_do() {
    let (authority, clients) = (TestAuthority::new(), TestAuthority::new());
    let mut files = authority.files("127.0.0.1");
    files.client_authority = Some(clients.certificate());
    let tls = ServerTls::load(files).unwrap();
    let of_server = tls.clone();
    let env = TestEnv::with(|options| options.server.tls = Some(of_server));
    let recorder = PrometheusBuilder::new().build_recorder();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let readiness = Readiness::default();
    let health = HealthServer::start(any, readiness, recorder.handle(), Some(tls)).unwrap();

    let live = |client: &mut TlsClient| {
        client.send(&request("GET", "/_health/live", &[], b""));
        client.reads_status()
    };
    let nobody = authority.client(&[&TLS13]);
    let known = authority.client_known_to(&clients, &[&TLS13]);
    assert_eq!(live(&mut connect(health.addr(), nobody.clone())), Some(200));
    assert_eq!(live(&mut connect(env.addr, nobody)), None);
    assert_eq!(live(&mut connect(env.addr, known)), Some(200));
    let answer = Client::connect(health.addr()).request("GET", "/metrics", &[], b"");
    assert_eq!(answer.code(), "https_required");
}
