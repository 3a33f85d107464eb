//! A server that does not answer in time: the shipper's own deadlines.

use crate::ship_fixture::{Database, LIMITS, TIMES, start};
use millrace_embedded::testing::shared;
use millrace_load::proxy::Proxy;
use std::net::SocketAddr;
use std::time::Duration;

/// Timeout that is long enough for an insert that is answered, as most here are.
const TEST_TIMEOUT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_times_out_is_stored_once_whether_it_was_executed_or_not() {
    // Seven faults are the same insert twice at least, as there are three at once. What is carried
    // out without an answer, or with one that a gateway strips of its headers, is found before it
    // would be sent again.
    for (name, rule, faults_min) in [
        ("ship_late", "silent inserts", 3),
        ("ship_never", "deaf inserts", 7),
        ("ship_mute", "silent", 7),
        ("ship_page", "answer=200 inserts", 7),
        ("ship_pages", "answer=200", 7),
        ("ship_stripped", "after=200 inserts", 3),
    ] {
        let engine = shared();
        let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
        Database::on(engine, name).migrate().await;
        let database = Database::behind(engine, name, &proxy.url(), TEST_TIMEOUT);
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
        writer.write(&TIMES, 50, b"{}");
        writer.settled().await;
        proxy.set(rule.parse().unwrap());
        for _ in 0..10 {
            writer.write(&TIMES, 50, b"{}");
        }
        while proxy.counts().faults < faults_min {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        proxy.lift();
        writer.settled().await;
        let rows = writer.rows();
        assert_eq!(database.counts().await, (rows, rows), "{rule}");
        shipping.stop().await;
    }
}
