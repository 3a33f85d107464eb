//! Rate limits of keys, users and wrong keys.

use crate::Fixture;
use millrace_admin::ApiConfig;
use millrace_catalog::Level;

on_both!(
    requests_of_a_key_are_limited,
    requests_of_all_keys_of_a_user_are_limited,
    requests_of_all_members_of_an_organization_are_limited,
    refusals_count_as_requests,
    wrong_tokens_count_as_wrong_keys,
    wrong_keys_are_limited_and_right_ones_are_not,
);

const ALL: &str = "/api/organizations/";

async fn requests_of_a_key_are_limited() {
    let fixture = Fixture::with(ApiConfig {
        requests_per_minute_max: 3,
        requests_per_hour_max: 100,
        ..ApiConfig::default()
    })
    .await;
    let other = fixture.key(&["organization:read"]).await;
    for remaining in ["2", "1", "0"] {
        let answer = fixture.get(ALL).await;
        assert_eq!(
            (answer.status, answer.header("ratelimit-limit")),
            (200, "3")
        );
        assert_eq!(answer.header("ratelimit-remaining"), remaining);
        assert!(!answer.header("ratelimit-reset").is_empty());
    }
    let refused = fixture.get(ALL).await;
    assert_eq!(refused.error(), (429, "throttled", None));
    assert_eq!(refused.body["type"], "throttled_error");
    assert_eq!(refused.header("ratelimit-remaining"), "0");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // Neither another key nor an unknown path is affected.
    assert_eq!(fixture.send("GET", ALL, Some(&other)).await.status, 200);
    assert_eq!(fixture.get("/api/nothing/").await.status, 404);
}

async fn requests_of_all_keys_of_a_user_are_limited() {
    let fixture = Fixture::with(ApiConfig {
        requests_per_minute_max: 3,
        requests_per_user_factor: 2,
        ..ApiConfig::default()
    })
    .await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(fixture.key(&["organization:read"]).await);
    }
    for number in 0..6 {
        let answer = fixture.send("GET", ALL, Some(&keys[number % 3])).await;
        assert_eq!(answer.status, 200, "{number}");
    }
    // Each key has made two of its three requests.
    for key in &keys {
        let refused = fixture.send("GET", ALL, Some(key)).await;
        assert_eq!(refused.error(), (429, "throttled", None));
        let headers = ["ratelimit-limit", "ratelimit-remaining"].map(|name| refused.header(name));
        assert_eq!(headers, ["6", "0"]);
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
    }
    let other = fixture.member("other@example.com", Level::Member).await;
    assert_eq!(fixture.send("GET", ALL, Some(&other)).await.status, 200);
}

async fn requests_of_all_members_of_an_organization_are_limited() {
    let fixture = Fixture::with(ApiConfig {
        requests_per_minute_max: 3,
        requests_per_organization_factor: 2,
        ..ApiConfig::default()
    })
    .await;
    let here = format!("/api/organizations/{}/", fixture.made.organization_id);
    let mut keys = Vec::new();
    for number in 0..4 {
        let email = format!("m{number}@example.com");
        keys.push(fixture.member(&email, Level::Member).await);
    }
    for (number, left) in ["2", "2", "2", "2", "1", "0"].into_iter().enumerate() {
        let answer = fixture.send("GET", &here, Some(&keys[number % 4])).await;
        assert_eq!(answer.status, 200, "{number}");
        assert_eq!(answer.header("ratelimit-remaining"), left, "the nearest");
    }
    // Each of them has more left.
    for key in &keys[2..] {
        let refused = fixture.send("GET", &here, Some(key)).await;
        assert_eq!(refused.error(), (429, "throttled", None));
        let headers = ["ratelimit-limit", "ratelimit-remaining"].map(|name| refused.header(name));
        assert_eq!(headers, ["6", "0"]);
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        // What concerns no organization is served.
        assert_eq!(fixture.send("GET", ALL, Some(key)).await.status, 200);
    }
}

async fn refusals_count_as_requests() {
    let fixture = Fixture::with(ApiConfig {
        requests_per_minute_max: 2,
        ..ApiConfig::default()
    })
    .await;
    let plugin_only = fixture.key(&["plugin:read"]).await;
    for status in [403, 403, 429] {
        let answer = fixture.send("GET", ALL, Some(&plugin_only)).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("ratelimit-limit"), "2");
    }
}

async fn wrong_tokens_count_as_wrong_keys() {
    let fixture = Fixture::new().await;
    let path = "/api/signup/not-a-token/";
    let before = fixture.contents().await;
    let once = [("idempotency-key", "once")];
    for number in 0..30 {
        let method = ["GET", "POST"][number % 2];
        let answer = fixture.request(method, path, &once, b"").await;
        assert_eq!(answer.error(), (404, "not_found", None));
    }
    for method in ["GET", "POST"] {
        let refused = fixture.request(method, path, &once, b"").await;
        assert_eq!(refused.error(), (429, "throttled", None));
    }
    assert_eq!(fixture.contents().await, before);
}

async fn wrong_keys_are_limited_and_right_ones_are_not() {
    let fixture = Fixture::new().await;
    for _ in 0..40 {
        // Requests without a key do not count.
        assert_eq!(fixture.send("GET", ALL, None).await.status, 401);
    }
    for _ in 0..30 {
        let answer = fixture.send("GET", ALL, Some("phx_wrong")).await;
        assert_eq!(answer.error(), (401, "authentication_failed", None));
    }
    let refused = fixture.send("GET", ALL, Some("phx_wrong")).await;
    assert_eq!(refused.error(), (429, "throttled", None));
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(fixture.get(ALL).await.status, 200);
}
