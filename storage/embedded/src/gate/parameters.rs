//! Parameters of a request's address, and those that do not go on to the engine.
//!
//! | Left out | As |
//! |---|---|
//! | `wait_end_of_query` of others than the program | the answer would go to the disk |
//! | `send_progress_in_http_headers` | its head would not end before the statement |
//! | settings of the engine's page `/play` | no user may set all of them, and it works without |
//!
//! The page sends `add_http_cors_header` with each request. By that it is known: others who send
//! one of the other settings mean it, and are told when they may not.

use http::Uri;
use http::uri::PathAndQuery;
use percent_encoding::percent_decode_str;

/// Parameter that has the engine keep an answer on the disk until its statement has ended.
const HELD_BACK: &str = "wait_end_of_query";
/// Parameter that has the engine write headers until the statement has ended.
const PROGRESS: &str = "send_progress_in_http_headers";
/// Setting that the engine's page sends with each request.
const OF_EACH: &str = "add_http_cors_header";
/// Other settings that it sends. The cache of results is never used: without it, a download runs
/// the statement again.
const OF_PAGE: [&str; 9] = [
    "enable_http_compression",
    "enable_reads_from_query_cache",
    "enable_writes_to_query_cache",
    "extremes",
    "http_response_headers",
    "query_cache_nondeterministic_function_handling",
    "query_cache_system_table_handling",
    "query_cache_ttl",
    "use_query_cache",
];

/// Address of a request as the engine gets it; `None` if it stays as it is.
pub(super) fn rewritten(uri: &Uri, is_of_program: bool) -> Option<Uri> {
    let pairs: Vec<&str> = uri.query().unwrap_or_default().split('&').collect();
    let is_of_page = pairs.iter().any(|pair| name_of(pair) == OF_EACH);
    let is_left_out = |name: &str| {
        let is_held_back = name == HELD_BACK && !is_of_program;
        let is_pages = is_of_page && (name == OF_EACH || OF_PAGE.contains(&name));
        is_held_back || is_pages || name == PROGRESS
    };
    let kept = pairs.iter().filter(|pair| !is_left_out(&name_of(pair)));
    let kept: Vec<&str> = kept.copied().collect();
    if kept.len() == pairs.len() {
        // A client of a proxy names the host, too.
        let path = uri.path_and_query().filter(|_| uri.scheme().is_some())?;
        return Some(Uri::from(path.clone()));
    }
    let path = PathAndQuery::try_from(format!("{}?{}", uri.path(), kept.join("&")));
    path.ok().map(Uri::from)
}

/// Values of the parameters of a name.
pub(super) fn values_of(uri: &Uri, name: &str) -> impl Iterator<Item = String> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let named = pairs.filter(move |pair| name_of(pair) == name);
    named.map(|pair| decoded(pair.split_once('=').unwrap_or_default().1))
}

/// Name of a parameter, which the engine reads in any case.
fn name_of(pair: &str) -> String {
    decoded(pair.split('=').next().unwrap_or_default()).to_ascii_lowercase()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_page_sends_is_left_out_of_its_requests() {
        let cache = "use_query_cache=1&enable_reads_from_query_cache=0&query_cache_ttl=600";
        let page = format!("/?add_http_cors_header=1&user=reader&{cache}&param_a=%26&extremes=1");
        let named = "/?a&ADD_http%5fcors_header=1&Http_Response_Headers=x&http_response_headers";
        let table = [
            (page.as_str(), Some("/?user=reader&param_a=%26")),
            (named, Some("/?a")),
            ("/?add_http_cors_header", Some("/?")),
            // The token of a project's user, which is checked by the engine.
            (
                "/?add_http_cors_header=1&query_cache_tag=a",
                Some("/?query_cache_tag=a"),
            ),
            ("/?http_response_headers=x&extremes=1", None),
            ("/?use_query_cache=1", None),
            ("/?query=add_http_cors_header=1&extremes=1", None),
            ("/?param_add_http_cors_header=1&extremes=1", None),
        ];
        for (given, expected) in table {
            for is_of_program in [false, true] {
                let found = rewritten(&given.parse().unwrap(), is_of_program);
                let found = found.map(|uri| uri.to_string());
                assert_eq!(found.as_deref(), expected, "{given} {is_of_program}");
            }
        }
    }

    #[test]
    fn values_are_those_of_the_name_in_any_notation() {
        let table: [(&str, &[&str]); 4] = [
            ("/?user=a&User=b%20c&users=d&%75ser=", &["a", "b c", ""]),
            ("/?user", &[""]),
            ("/?query=user=a", &[]),
            ("/", &[]),
        ];
        for (given, expected) in table {
            let uri: Uri = given.parse().unwrap();
            let found: Vec<String> = values_of(&uri, "user").collect();
            assert_eq!(found, expected, "{given}");
        }
    }
}
