//! Proxy records that are checked, as those who wait for them see it.

use crate::Fixture;
use crate::proxy_check::https_server;
use crate::served::Served;
use crate::servers::dns::DnsServer;
use millrace_admin::dns::Dns;
use millrace_admin::proxy_check::{ProbeOptions, ProxyRounds};
use millrace_admin::{ApiConfig, Services};
use millrace_catalog::SecretKey;
use serde_json::{Value, json};
use tokio::net::UdpSocket;

on_both!(
    a_record_goes_from_waiting_over_issuing_to_valid_and_back,
    a_nameserver_that_does_not_answer_changes_nothing,
    records_are_checked_beside_the_api_until_it_ends,
);

const ALL: &str = "/api/organizations/@current/proxy_records/";

fn rounds(fixture: &Fixture, dns: Dns, port: u16, authority: &[u8]) -> ProxyRounds {
    let key = SecretKey::generate().unwrap();
    let mut services = Services::new(fixture.catalog.clone(), key);
    services.dns = dns;
    services.probe = ProbeOptions {
        port,
        allow_private: true,
        authority: Some(authority.to_vec()),
    };
    ProxyRounds::new(&services).unwrap()
}

async fn a_record_goes_from_waiting_over_issuing_to_valid_and_back() {
    let fixture = Fixture::with(ApiConfig {
        // Names below `localhost` have an address by themselves.
        proxy_base_name: "proxy.example".to_owned(),
        ..Fixture::unthrottled()
    })
    .await;
    let mut nameserver = DnsServer::start("").await;
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (port, authority) = https_server("events.example", answer).await;
    let good = rounds(&fixture, nameserver.client(), port, &authority);
    let broken = rounds(&fixture, nameserver.client(), 1, &authority);

    let new = json!({ "domain": "events.example" });
    let made = fixture.call("POST", ALL, &new).await.body;
    assert_eq!(
        (&made["status"], &made["message"]),
        (&json!("waiting"), &Value::Null)
    );
    let path = format!("{ALL}{}/", made["id"].as_str().unwrap());
    let target = made["target_cname"].as_str().unwrap();
    let alias = format!("events.example 60 CNAME {target}");
    let address = format!("{target} 60 A 127.0.0.1");
    let table = [
        (None, &good, "waiting", "no CNAME record"),
        (Some(alias), &good, "issuing", "the name has no address"),
        (Some(address), &good, "valid", ""),
        (None, &broken, "erroring", "no connection could be made"),
        (None, &good, "valid", ""),
    ];
    let entries = 1 + table.len();
    for (record, rounds, status, message) in table {
        if let Some(record) = record {
            nameserver.add(&record).await;
        }
        rounds.round().await.unwrap();
        let seen = fixture.get(&path).await.body;
        let said = seen["message"].as_str().unwrap_or_default();
        assert_eq!(seen["status"], status, "{seen}");
        assert!(said.contains(message), "{seen}");
        assert_eq!(said.is_empty(), message.is_empty(), "{seen}");
        // Nothing is due now, so nothing is looked at.
        broken.round().await.unwrap();
        assert_eq!(fixture.get(&path).await.body, seen);
        fixture
            .execute("UPDATE proxy_records SET check_at = 0")
            .await;
    }
    let log = fixture
        .get("/api/organizations/@current/activity/?scopes=ProxyRecord")
        .await;
    assert_eq!(log.body["count"], entries);
}

async fn a_nameserver_that_does_not_answer_changes_nothing() {
    let fixture = Fixture::new().await;
    let nameserver = DnsServer::start("").await;
    let (port, authority) = https_server("events.silent", "").await;
    let rounds = rounds(&fixture, nameserver.impatient_client(), port, &authority);
    let new = json!({ "domain": "events.silent" });
    let made = fixture.call("POST", ALL, &new).await.body;
    rounds.round().await.unwrap();
    let path = format!("{ALL}{}/", made["id"].as_str().unwrap());
    assert_eq!(fixture.get(&path).await.body, made);
}

async fn records_are_checked_beside_the_api_until_it_ends() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let nameserver = silent.local_addr().unwrap();
    let fixture = Fixture::new().await;
    let new = json!({ "domain": "events.acme.example" });
    assert_eq!(fixture.call("POST", ALL, &new).await.status, 201);
    let served = Served::over(fixture, |services| {
        services.dns = Dns::new(Some(nameserver));
    })
    .await;
    let mut question = [0; 512];
    let (bytes, _) = silent.recv_from(&mut question).await.unwrap();
    let name = b"\x06events\x04acme\x07example";
    let asked = question[..bytes].windows(name.len());
    assert!(
        asked
            .into_iter()
            .any(|part| part.eq_ignore_ascii_case(name))
    );
    // The check that nobody answers is given up.
    served.stop().await;
}
