//! Signing people in by links of the terminal.

use crate::server::{Server, get, post, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Address that a link leads to, and its token.
fn parts(link: &str) -> (&str, &str) {
    let parts = link.split_once("/sign-in#");
    parts.unwrap_or_else(|| panic!("{link}"))
}

/// Signs in by a link, as its page does; returns status and response.
fn sign_in(link: &str) -> (u16, Value) {
    let (base, token) = parts(link);
    let body = json!({ "token": token }).to_string();
    post(&format!("{base}/api/sign_in/"), &body)
}

/// Link of a banner; `None` if it has none.
fn link_of(banner: &str) -> Option<&str> {
    let line = banner.lines().find(|line| line.contains("/sign-in#"))?;
    line.split_whitespace().find(|word| word.contains('#'))
}

#[test]
fn the_first_start_prints_a_link_that_works_once() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let link = link_of(server.banner()).expect("a link").to_owned();
    let (base, _) = parts(&link);
    assert_eq!(base, server.credential("admin_url"));
    let (status, page) = get(&link, &[]);
    assert_eq!((status, page.contains("<html")), (200, true), "{page}");
    let (status, signed_in) = sign_in(&link);
    assert_eq!(status, 200, "{signed_in}");
    assert_eq!(signed_in["user"]["email"], "owner@localhost");
    assert_eq!(sign_in(&link).0, 404, "it is used up");
    assert!(server.stop().success());
    let server = Server::start_mode("admin", dir.path(), &[]);
    assert_eq!(link_of(server.banner()), None, "{}", server.banner());
}

#[test]
fn a_command_creates_a_link_for_an_account() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().to_str().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let create = |email: &str| run(&["sign-in-link", "--email", email, "--data-dir", folder]);
    let made = create("Owner@localhost");
    assert!(made.status.success(), "{made:?}");
    let made = String::from_utf8(made.stdout).unwrap();
    let link = made.lines().next().unwrap();
    assert_eq!(parts(link).0, server.credential("admin_url"));
    let (status, signed_in) = sign_in(link);
    assert_eq!(status, 200, "{signed_in}");
    let nobody = create("nobody@example.com");
    assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(said.contains("invites create"), "{said}");
}
