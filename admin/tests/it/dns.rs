//! DNS lookups against a real nameserver.

use crate::servers::dns::DnsServer;
use millrace_admin::dns::{DnsError, Proof};
use millrace_admin::domain_name::normalized;

const CHALLENGE: &str = "mX0_3cJ8-7nqQ1hA5tYw9uZ2eK4rB6sD8fG0jL2pN4v";

fn zone() -> String {
    let many: String = (0..80)
        .map(|number| format!("_millrace-challenge.many.example 60 TXT \"v=other{number:040}\"\n"))
        .collect();
    let (head, tail) = CHALLENGE.split_at(20);
    format!(
        r#"
_millrace-challenge.right.example 60 TXT "{CHALLENGE}"
_millrace-challenge.wrong.example 60 TXT "{CHALLENGE}x"
_millrace-challenge.quoted.example 60 TXT "challenge={CHALLENGE}"
_millrace-challenge.several.example 60 TXT "v=spf1 -all"
_millrace-challenge.several.example 60 TXT "{CHALLENGE}"
_millrace-challenge.split.example 60 TXT "{head}" "{tail}"
_millrace-challenge.other-type.example 60 A 192.0.2.1
_millrace-challenge.alias.example 60 CNAME proof.elsewhere.example
proof.elsewhere.example 60 TXT "{CHALLENGE}"
_millrace-challenge.chain.apart 60 CNAME proof.elsewhere.example
_millrace-challenge.loop.example 60 CNAME _millrace-challenge.loop.example
_millrace-challenge.xn--bcher-kva.example 60 TXT "{CHALLENGE}"
above.example 60 TXT "{CHALLENGE}"
{many}_millrace-challenge.many.example 60 TXT "{CHALLENGE}"
events.example 60 CNAME Target.Proxy.Example
target.proxy.example 60 A 192.0.2.7
target.proxy.example 60 AAAA 2001:db8::7
"#
    )
}

#[tokio::test]
async fn a_domain_is_proved_by_a_record_that_equals_the_challenge() {
    let server = DnsServer::start(&zone()).await;
    let dns = server.client();
    let table = [
        ("right.example", Proof::Found),
        ("RIGHT.example", Proof::Found),
        ("wrong.example", Proof::Different),
        ("quoted.example", Proof::Different),
        ("several.example", Proof::Found),
        ("split.example", Proof::Found),
        ("many.example", Proof::Found),
        ("alias.example", Proof::Found),
        ("chain.apart", Proof::Found),
        ("bücher.example", Proof::Found),
        ("other-type.example", Proof::Missing),
        ("above.example", Proof::Missing),
        ("nothing.example", Proof::Missing),
    ];
    for (domain, expected) in table {
        let name = normalized(domain).unwrap();
        assert_eq!(dns.proof(&name, CHALLENGE).await, Ok(expected), "{domain}");
    }
}

#[tokio::test]
async fn a_failed_lookup_is_not_reported_as_a_missing_record() {
    let server = DnsServer::start(&zone()).await;
    let client = server.client();
    let failed = |outcome: Result<Proof, DnsError>| matches!(outcome, Err(DnsError::Failed(_)));
    assert!(failed(client.proof("domain.broken", CHALLENGE).await));
    let looped = client.proof("loop.example", CHALLENGE).await;
    assert_ne!(looped, Ok(Proof::Found), "an alias of itself");

    let impatient = server.impatient_client();
    let silence = impatient.proof("domain.silent", CHALLENGE).await;
    assert_eq!(silence, Err(DnsError::TimedOut));
}

#[tokio::test]
async fn aliases_and_addresses_are_found() {
    let dns = DnsServer::start(&zone()).await;
    let client = dns.client();
    let alias = client.alias("events.example").await.unwrap();
    assert_eq!(alias.as_deref(), Some("target.proxy.example"));
    for none in ["target.proxy.example", "nothing.example"] {
        assert_eq!(client.alias(none).await, Ok(None), "{none}");
    }
    let addresses = client.addresses("events.example").await.unwrap();
    let expected: [std::net::IpAddr; 2] =
        ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
    assert_eq!(addresses, expected);
    assert_eq!(client.addresses("nothing.example").await, Ok(vec![]));
}
