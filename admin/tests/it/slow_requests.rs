//! Slow requests: keys and versions are checked again after a wait.

use crate::Fixture;
use crate::test_server::TestServer;
use millrace_admin::dns::Dns;
use millrace_catalog::Actor;
use millrace_organizations::PersonalKeys;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

on_both!(
    a_key_revoked_while_a_body_arrives_writes_nothing,
    if_match_is_compared_after_the_body_has_arrived,
    verifying_a_domain_does_not_block_other_changes_of_it,
);

const INVITES: &str = "/api/organizations/@current/invites/";
const KEYS: &str = "/api/personal_api_keys/";
const PROJECT: &str = "/api/organizations/@current/projects/@current/";

/// A request whose head the server has processed, and whose body it waits for.
struct SlowRequest(TcpStream);

impl SlowRequest {
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

    /// Sends the body; returns the status of the response.
    async fn send(mut self, body: &str) -> u16 {
        self.0.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        self.0.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1);
        status.unwrap().parse().unwrap()
    }
}

async fn a_key_revoked_while_a_body_arrives_writes_nothing() {
    let server = TestServer::start_unthrottled().await;
    let fixture = &server.fixture;
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
            let held = SlowRequest::open(server.address, &request, &headers, body.len()).await;
            let expected = match ends {
                "revoked" => {
                    let by = Actor::system();
                    let revoked = PersonalKeys::new(&fixture.catalog).revoke(&by, &key);
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
    server.stop().await;
}

async fn if_match_is_compared_after_the_body_has_arrived() {
    let server = TestServer::start_unthrottled().await;
    let fixture = &server.fixture;
    let tag = fixture.get(PROJECT).await.header("etag").to_owned();
    let body = json!({ "name": "Theirs" }).to_string();
    let headers = [
        format!("Authorization: Bearer {}", fixture.owner_key()),
        format!("If-Match: {tag}"),
    ];
    let request = format!("PATCH {PROJECT}");
    let held = SlowRequest::open(server.address, &request, &headers, body.len()).await;
    let changed = fixture
        .call("PATCH", PROJECT, &json!({ "name": "Ours" }))
        .await;
    assert_eq!(changed.status, 200);
    assert_eq!(held.send(&body).await, 412);
    assert_eq!(fixture.get(PROJECT).await.body["name"], "Ours");
    server.stop().await;
}

async fn verifying_a_domain_does_not_block_other_changes_of_it() {
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
    // The handler waits for the nameserver now.
    silent.recv_from(&mut [0; 512]).await.unwrap();
    let change = json!({ "jit_provisioning_enabled": false });
    let changed = fixture
        .call("PATCH", &format!("{domains}{id}/"), &change)
        .await;
    assert_eq!((changed.status, verify.is_finished()), (200, false));
    verify.abort();
}
