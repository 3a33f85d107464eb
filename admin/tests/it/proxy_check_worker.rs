//! The worker that checks proxy records, seen through the API.

use crate::Fixture;
use crate::proxy_check::https_server;
use crate::servers::dns::DnsServer;
use crate::test_server::TestServer;
use millrace_admin::dns::Dns;
use millrace_admin::proxy_check::{ProbeOptions, ProxyCheckWorker};
use millrace_admin::{ApiConfig, Services};
use millrace_catalog::Actor;
use millrace_exports::SecretKey;
use millrace_organizations::ProxyRecords;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

on_both!(
    a_record_goes_from_waiting_over_issuing_to_valid_and_back,
    an_unanswered_lookup_is_reported_and_retried_later,
    slow_domains_do_not_delay_the_others,
    at_most_sixteen_domains_are_checked_at_a_time,
    the_server_checks_records_until_it_stops,
);

const ALL: &str = "/api/organizations/@current/proxy_records/";

fn worker(fixture: &Fixture, dns: Dns, port: u16, authority: &[u8]) -> ProxyCheckWorker {
    let key = SecretKey::generate().unwrap();
    let mut services = Services::new(fixture.catalog.clone(), key);
    services.dns = dns;
    services.probe = ProbeOptions {
        port,
        allow_private: true,
        authority: Some(authority.to_vec()),
    };
    ProxyCheckWorker::new(&services).unwrap()
}

async fn a_record_goes_from_waiting_over_issuing_to_valid_and_back() {
    let fixture = Fixture::with(ApiConfig {
        // Names below `localhost` always resolve.
        proxy_base_name: "proxy.example".to_owned(),
        ..Fixture::unthrottled()
    })
    .await;
    let mut nameserver = DnsServer::start("").await;
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (port, authority) = https_server("events.example", answer).await;
    let good = worker(&fixture, nameserver.client(), port, &authority);
    let broken = worker(&fixture, nameserver.client(), 1, &authority);

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
    for (record, worker, status, message) in table {
        if let Some(record) = record {
            nameserver.add(&record).await;
        }
        worker.check_due().await.unwrap();
        let seen = fixture.get(&path).await.body;
        let said = seen["message"].as_str().unwrap_or_default();
        assert_eq!(seen["status"], status, "{seen}");
        assert!(said.contains(message), "{seen}");
        assert_eq!(said.is_empty(), message.is_empty(), "{seen}");
        // Nothing is due now, so nothing is checked.
        broken.check_due().await.unwrap();
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

async fn an_unanswered_lookup_is_reported_and_retried_later() {
    const MINUTE: i64 = 60_000_000;
    let fixture = Fixture::new().await;
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let dns = Dns::with_timeout(silent.local_addr().ok(), Duration::from_millis(20));
    let worker = worker(&fixture, dns, 1, &authority());
    let (id, actor) = (fixture.made.organization_id, Actor::system());
    let made =
        ProxyRecords::new(&fixture.catalog).create(&actor, id, "events.example", "proxy.example");
    let made = made.await.unwrap().record;
    worker.check_due().await.unwrap();
    let mut question = [0; 512];
    let asked = silent.try_recv_from(&mut question);
    assert!(asked.is_ok(), "nobody was asked: {asked:?}");
    let seen = ProxyRecords::new(&fixture.catalog).get(id, made.id).await;
    let seen = seen.unwrap().unwrap().record;
    assert_eq!(seen.status, made.status);
    let said = seen.message.unwrap_or_default();
    assert!(said.contains("no answer about this domain"), "{said}");
    assert_eq!(seen.check_at.0 - seen.updated_at.0, MINUTE);
}

async fn at_most_sixteen_domains_are_checked_at_a_time() {
    const CHECKS_MAX: usize = 16;
    let fixture = Fixture::new().await;
    let (id, actor) = (fixture.made.organization_id, Actor::system());
    for number in 0..CHECKS_MAX + 4 {
        let domain = format!("e{number}.example");
        let made = ProxyRecords::new(&fixture.catalog).create(&actor, id, &domain, "proxy.example");
        made.await.unwrap();
    }
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let dns = Dns::with_timeout(silent.local_addr().ok(), Duration::from_secs(3_600));
    let worker = worker(&fixture, dns, 1, &authority());
    // By name, as unanswered queries are sent again.
    let (mut asked, mut question) = (HashSet::new(), [0; 512]);
    let mut hear = async |asked: &mut HashSet<Vec<u8>>| {
        let length = silent.recv(&mut question).await.unwrap();
        asked.insert(question[12..length].to_ascii_lowercase());
    };
    let heard = async {
        while asked.len() < CHECKS_MAX {
            hear(&mut asked).await;
        }
        // No query is answered, so no other check begins.
        let others = async {
            while asked.len() == CHECKS_MAX {
                hear(&mut asked).await;
            }
        };
        let others = timeout(Duration::from_millis(200), others).await;
        assert!(others.is_err(), "more than {CHECKS_MAX} at a time");
    };
    tokio::select! {
        () = heard => {}
        ended = worker.check_due() => panic!("{ended:?}"),
    }
}

async fn slow_domains_do_not_delay_the_others() {
    const DOMAINS: usize = 40;
    let fixture = Fixture::new().await;
    let (id, actor) = (fixture.made.organization_id, Actor::system());
    for number in 0..DOMAINS {
        let domain = format!("e{number}.example");
        let made = ProxyRecords::new(&fixture.catalog).create(&actor, id, &domain, "proxy.example");
        made.await.unwrap();
    }
    let nameserver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let time_limit = Duration::from_secs(3_600);
    let dns = Dns::with_timeout(nameserver.local_addr().ok(), time_limit);
    let worker = worker(&fixture, dns, 1, &authority());
    // The first query is never answered; all others are, with "no such name".
    let all_are_asked = async {
        let (mut first, mut asked) = (None, BTreeSet::new());
        while asked.len() < DOMAINS {
            let mut packet = [0; 512];
            let (bytes, from) = nameserver.recv_from(&mut packet).await.unwrap();
            let packet = &mut packet[..bytes];
            // The name follows the twelve bytes of the header.
            let name = packet[12..].split(|byte| *byte == 0).next().unwrap();
            let name = name.to_ascii_lowercase();
            asked.insert(name.clone());
            if *first.get_or_insert_with(|| name.clone()) != name {
                packet[2] |= 0x80;
                packet[3] = 0x83;
                nameserver.send_to(packet, from).await.unwrap();
            }
        }
    };
    let asked = async {
        tokio::select! {
            () = all_are_asked => (),
            ended = worker.check_due() => panic!("the first has no answer yet: {ended:?}"),
        }
    };
    let time_limit = Duration::from_secs(60);
    timeout(time_limit, asked).await.expect("the others wait");
}

/// Certificate for a probe that is never used.
fn authority() -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["unused.example".to_owned()]);
    made.unwrap().cert.pem().into_bytes()
}

async fn the_server_checks_records_until_it_stops() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let nameserver = silent.local_addr().unwrap();
    let fixture = Fixture::new().await;
    let new = json!({ "domain": "events.acme.example" });
    assert_eq!(fixture.call("POST", ALL, &new).await.status, 201);
    let server = TestServer::over(fixture, |services| {
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
    // The unanswered check is aborted.
    server.stop().await;
}
