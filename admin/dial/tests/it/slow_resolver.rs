//! A resolver that does not answer.

use async_trait::async_trait;
use millrace_dial::{DialError, Guard, Resolver};
use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::Instant;

struct Silent;

#[async_trait]
impl Resolver for Silent {
    async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_looked_up_for_five_seconds() {
    let guard = Guard::with_resolver(true, Arc::new(Silent)).unwrap();
    let begun_at = Instant::now();
    let found = guard.addresses("silent.example").await;
    assert_eq!(found, Err(DialError::NoAddress));
    assert_eq!(begun_at.elapsed().as_secs(), 5);
}
