//! Checks of keys, scopes, levels and organizations, the same for every operation of a resource.

use crate::Fixture;
use millrace_catalog::{Actor, Level};
use millrace_organizations::Organizations;
use serde_json::json;

/// An operation: method, path below `/api/organizations/<id>/`, scopes of which one is enough,
/// least level.
pub type Rule<'a> = (&'a str, &'a str, &'a [&'a str], Level);

/// Checks keys, scopes, levels, foreign organizations and slashes of all operations. The paths
/// name resources that do not exist, so that the requests change nothing.
pub async fn check(fixture: &Fixture, rules: &[Rule<'_>]) {
    let (owner, stranger) = (
        fixture.owner_key(),
        fixture.key(&["activity_log:read"]).await,
    );
    let member = fixture.member("member@example.com", Level::Member).await;
    let administrator = fixture
        .member("admin@example.com", Level::Administrator)
        .await;
    let system = Actor::system();
    let foreign = Organizations::new(&fixture.catalog).create(&system, "Theirs", None);
    let foreign = foreign.await.unwrap().id;
    for (method, path, scopes, level) in rules {
        let case = format!("{method} {path}");
        let path = format!("/api/organizations/@current/{path}");
        let body = json!({});
        let without = fixture.send(method, &path, None).await;
        assert_eq!(without.error(), (401, "not_authenticated", None), "{case}");
        let other = fixture.call_with(&stranger, method, &path, &body).await;
        assert_eq!(other.error(), (403, "permission_denied", None), "{case}");
        for scope in *scopes {
            let key = owners_key(fixture, scope).await;
            let answer = fixture.call_with(&key, method, &path, &body).await;
            assert!(
                ![401, 403, 405].contains(&answer.status),
                "{case} {scope}: {answer:?}"
            );
        }
        if let Some((family, _)) = scopes.first().and_then(|scope| scope.split_once(":write")) {
            let reader = owners_key(fixture, &format!("{family}:read")).await;
            let answer = fixture.call_with(&reader, method, &path, &body).await;
            assert_eq!(answer.error(), (403, "permission_denied", None), "{case}");
        }
        for (key, may) in [
            (&member, *level <= Level::Member),
            (&administrator, *level <= Level::Administrator),
        ] {
            let answer = fixture.call_with(key, method, &path, &body).await;
            assert_eq!(answer.status != 403, may, "{case}: {answer:?}");
        }
        let elsewhere = path.replace("@current", &foreign.to_string());
        let answer = fixture.call_with(owner, method, &elsewhere, &body).await;
        assert_eq!(answer.error(), (404, "not_found", None), "{case}");
        let slash = fixture.call(method, &path, &body).await;
        let bare = fixture
            .call(method, path.trim_end_matches('/'), &body)
            .await;
        assert_eq!(slash.error(), bare.error(), "{case}");
    }
}

/// Checks operations that every member may use, as [`check`] does: method, path and scopes of each.
pub async fn check_of_members<'a>(
    fixture: &Fixture,
    operations: impl IntoIterator<Item = (&'a str, String, &'a [&'a str])>,
) {
    let operations: Vec<_> = operations.into_iter().collect();
    let rules = operations.iter();
    let rules =
        rules.map(|(method, path, scopes)| (*method, path.as_str(), *scopes, Level::Member));
    check(fixture, &rules.collect::<Vec<Rule<'_>>>()).await;
}

/// Returns the owner's key with a scope, the same for all operations.
async fn owners_key(fixture: &Fixture, scope: &str) -> String {
    let scopes = [scope.to_owned()];
    fixture
        .cached_key_of(&fixture.made.owner_email, &scopes)
        .await
}
