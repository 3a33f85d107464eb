//! The page behind an invitation's link.

use crate::Fixture;

on_both!(the_page_is_one_for_all_tokens_and_needs_no_key,);

async fn the_page_is_one_for_all_tokens_and_needs_no_key() {
    let fixture = Fixture::new().await;
    for (method, path, status) in [
        ("GET", "/signup/any-token", 200),
        ("GET", "/signup/any-token/", 200),
        ("HEAD", "/signup/any-token", 200),
        ("POST", "/signup/any-token", 404),
        ("GET", "/signup/", 404),
        ("GET", "/signup/a/b", 404),
    ] {
        let answer = fixture.send(method, path, None).await;
        assert_eq!(answer.status, status, "{method} {path}");
        let is_page = answer.headers.contains_key("content-security-policy");
        assert_eq!(is_page, status == 200, "{method} {path}");
    }
    let headers = fixture.send("GET", "/signup/any-token", None).await.headers;
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    let mine = [("x-request-id", "mine-1")];
    let named = fixture
        .request("GET", "/signup/any-token", &mine, b"")
        .await;
    assert_eq!(named.header("x-request-id"), "mine-1");
}
