//! Proxies of the environment are not used: they would dial for us, unguarded.

use crate::canary::Canary;
use crate::resolver::Scripted;
use millrace_dial::Guard;
use std::process::Command;

/// Runs by itself, and with proxies in its environment as the child of the test below.
#[tokio::test]
async fn a_client_connects_directly() {
    let server = Canary::new();
    let guard = Guard::with_resolver(true, Scripted::new(&[&["127.0.0.1"]])).unwrap();
    let url = format!("http://some.example:{}/", server.port());
    let asking = tokio::spawn(guard.http_client().get(url).send());
    while server.connections() == 0 {
        assert!(!asking.is_finished(), "{:?}", asking.await);
        tokio::task::yield_now().await;
    }
    asking.abort();
}

#[test]
fn proxies_of_the_environment_are_not_used() {
    let proxy = Canary::new();
    let url = format!("http://127.0.0.1:{}", proxy.port());
    let names = [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ];
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "proxies::a_client_connects_directly"])
        .envs(names.map(|name| (name, &url)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(proxy.connections(), 0);
}
