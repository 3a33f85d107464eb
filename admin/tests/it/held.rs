//! Requests that take their time, and what may have changed when they go on.

use crate::Fixture;
use crate::served::Served;
use millrace_admin::dns::Dns;
use millrace_catalog::Actor;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

on_both!(
    a_key_that_ends_while_a_body_is_on_its_way_writes_nothing,
    a_version_is_compared_with_the_project_as_it_is_when_the_body_is_there,
    nobody_waits_for_the_nameserver_of_a_domain_but_who_asked_for_it,
);

const INVITES: &str = "/api/organizations/@current/invites/";
const KEYS: &str = "/api/personal_api_keys/";
const PROJECT: &str = "/api/organizations/@current/projects/@current/";

/// A request whose body the server waits for: it has looked at the head by then.
struct Held(TcpStream);

impl Held {
    async fn open(address: SocketAddr, request: &str, headers: &[String], bytes: usize) -> Self {
        let mut client = TcpStream::connect(address).await.unwrap();
        let headers: String = headers
            .iter()
            .map(|header| format!("{header}\r\n"))
            .collect();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {bytes}\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        client.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        Self(client)
    }

    /// Sends the body; the answer's status.
    async fn send(mut self, body: &str) -> u16 {
        self.0.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        self.0.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1);
        status.unwrap().parse().unwrap()
    }
}

async fn a_key_that_ends_while_a_body_is_on_its_way_writes_nothing() {
    let served = Served::start_unthrottled().await;
    let fixture = &served.fixture;
    let table = [
        (
            INVITES,
            json!({ "target_email": "me@evil.example", "level": 15 }),
        ),
        (KEYS, json!({ "label": "Mine", "scopes": ["*"] })),
    ];
    for (path, body) in table {
        for ends in ["revoked", "rolled", "not at all"] {
            let key = fixture.key(&["*"]).await;
            let body = body.to_string();
            let headers = [format!("Authorization: Bearer {key}")];
            let request = format!("POST {path}");
            let held = Held::open(served.address, &request, &headers, body.len()).await;
            let expected = match ends {
                "revoked" => {
                    let by = Actor::system();
                    let revoked = fixture.catalog.revoke_personal_key(&by, &key);
                    revoked.await.unwrap();
                    401
                }
                "rolled" => {
                    let roll = "/api/personal_api_keys/@current/roll/";
                    let rolled = fixture.call_with(&key, "POST", roll, &json!({})).await;
                    assert_eq!(rolled.status, 200);
                    401
                }
                _ => 201,
            };
            assert_eq!(held.send(&body).await, expected, "{path} {ends}");
        }
    }
    served.stop().await;
}

async fn a_version_is_compared_with_the_project_as_it_is_when_the_body_is_there() {
    let served = Served::start_unthrottled().await;
    let fixture = &served.fixture;
    let tag = fixture.get(PROJECT).await.header("etag").to_owned();
    let body = json!({ "name": "Theirs" }).to_string();
    let headers = [
        format!("Authorization: Bearer {}", fixture.owner_key()),
        format!("If-Match: {tag}"),
    ];
    let request = format!("PATCH {PROJECT}");
    let held = Held::open(served.address, &request, &headers, body.len()).await;
    let changed = fixture
        .call("PATCH", PROJECT, &json!({ "name": "Ours" }))
        .await;
    assert_eq!(changed.status, 200);
    assert_eq!(held.send(&body).await, 412);
    assert_eq!(fixture.get(PROJECT).await.body["name"], "Ours");
    served.stop().await;
}

async fn nobody_waits_for_the_nameserver_of_a_domain_but_who_asked_for_it() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let nameserver = silent.local_addr().unwrap();
    let fixture = Fixture::with_services(|services| services.dns = Dns::new(Some(nameserver)));
    let fixture = Arc::new(fixture.await);
    let domains = "/api/organizations/@current/domains/";
    let domain = json!({ "domain": "silent.example" });
    let made = fixture.call("POST", domains, &domain).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let verify = tokio::spawn({
        let (fixture, path) = (fixture.clone(), format!("{domains}{id}/verify/"));
        async move { fixture.call("POST", &path, &json!({})).await.status }
    });
    // It waits for an answer now.
    silent.recv_from(&mut [0; 512]).await.unwrap();
    let change = json!({ "jit_provisioning_enabled": false });
    let changed = fixture
        .call("PATCH", &format!("{domains}{id}/"), &change)
        .await;
    assert_eq!((changed.status, verify.is_finished()), (200, false));
    verify.abort();
}
