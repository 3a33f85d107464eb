//! DNS rebinding: a name that resolves to another address when it is looked up again.

use crate::canary::Canary;
use crate::resolver::Scripted;
use millrace_dial::{DialError, Guard};
use std::net::IpAddr;

const PUBLIC: &str = "8.8.8.8";

#[tokio::test]
async fn a_name_that_was_public_is_refused_once_it_resolves_to_a_private_address() {
    let canary = Canary::new();
    let resolver = Scripted::new(&[&[PUBLIC], &["127.0.0.1"]]);
    let guard = Guard::with_resolver(false, resolver.clone()).unwrap();
    let seen = guard.addresses("rebound.example").await.unwrap();
    assert_eq!(seen, [PUBLIC.parse::<IpAddr>().unwrap()]);
    let connected = guard.connect("rebound.example", canary.port()).await;
    assert_eq!(connected.unwrap_err(), DialError::NoAddress);
    let url = format!("http://rebound.example:{}/", canary.port());
    let error = guard.http_client().get(url).send().await.unwrap_err();
    assert_eq!(DialError::of(&error), Some(DialError::NoAddress));
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn a_dial_resolves_a_name_once_and_dials_the_checked_address() {
    let canary = Canary::new();
    let resolver = Scripted::new(&[&["127.0.0.1"], &[]]);
    let guard = Guard::with_resolver(true, resolver.clone()).unwrap();
    guard.connect("One.Example.", canary.port()).await.unwrap();
    assert_eq!(resolver.asked(), ["one.example."]);
    assert_eq!(canary.connections(), 1);
}

#[tokio::test]
async fn private_addresses_are_left_out_of_a_mixed_answer() {
    let mixed: &[&[&str]] = &[&[
        "127.0.0.1",
        PUBLIC,
        "::1",
        "2606:4700::1111",
        "fd00:ec2::254",
    ]];
    let guard = Guard::with_resolver(false, Scripted::new(mixed)).unwrap();
    let left = guard.addresses("mixed.example").await.unwrap();
    let expected: [IpAddr; 2] = [PUBLIC, "2606:4700::1111"].map(|text| text.parse().unwrap());
    assert_eq!(left, expected);
}
