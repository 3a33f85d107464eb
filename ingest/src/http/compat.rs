//! Stub endpoints that SDKs ask besides sending events: no flag is on, and nothing is wrong.
//!
//! The keys are those that SDKs read. `quotaLimited` is left out on purpose: some SDKs expect a
//! list, some a boolean, and all do without.

use crate::request::route::Route;
use crate::response::{Content, HttpResponse};
use bytes::Bytes;
use http::StatusCode;

/// Body of `/flags?v=1` and `/decide`, with the keys of newer versions: flags as objects in
/// `flags`, as values in `featureFlags`; both are empty.
const FLAGS: &str = concat!(
    r#"{"config":{"enable_collect_everything":false},"toolbarParams":{},"isAuthenticated":false,"#,
    r#""supportedCompression":["gzip","gzip-js"],"featureFlags":{},"featureFlagPayloads":{},"#,
    r#""flags":{},"errorsWhileComputingFlags":false,"sessionRecording":false,"surveys":false,"#,
    r#""heatmaps":false,"capturePerformance":false,"autocapture_opt_out":false,"#,
    r#""autocaptureExceptions":false,"defaultIdentifiedOnly":true,"siteApps":[],"#,
    r#""elementsChainAsString":true,"analytics":{"endpoint":"/i/v0/e/"}}"#
);

/// Rest of `/array/<token>/config` after the token. It has no `surveys`: told that they are off,
/// posthog-js loads their script all the same, for pages that show some by themselves.
const CONFIG: &str = concat!(
    r#""supportedCompression":["gzip","gzip-js"],"hasFeatureFlags":false,"#,
    r#""captureDeadClicks":false,"capturePerformance":{"network_timing":false,"web_vitals":false},"#,
    r#""autocapture_opt_out":false,"autocaptureExceptions":false,"#,
    r#""analytics":{"endpoint":"/i/v0/e/"},"elementsChainAsString":true,"#,
    r#""errorTracking":{"autocaptureExceptions":false,"suppressionRules":[]},"#,
    r#""logs":{"captureConsoleLogs":false},"sessionRecording":false,"heatmaps":false,"#,
    r#""productTours":false,"conversations":false,"defaultIdentifiedOnly":true,"#,
    r#""siteApps":[],"isAuthenticated":false,"toolbarParams":{}}"#
);

/// Response of a stub: no flag to `/flags` and `/decide`; `Ok` to `/s`, whose recordings are not
/// kept.
pub fn stub(route: Route) -> HttpResponse {
    HttpResponse::ok_static(match route {
        Route::Replay => r#"{"status":"Ok"}"#,
        _ => FLAGS,
    })
}

/// Response to `/array/<token>/config` and `config.js`; the script puts the same object where the
/// SDK looks for it.
pub fn config(route: Route, path: &str) -> HttpResponse {
    let token = path
        .strip_prefix("/array/")
        .and_then(|rest| rest.split('/').next());
    let token = token.unwrap_or_default();
    // Quoted as JSON, with what could end a script element escaped: the token is the client's.
    let quoted = serde_json::to_string(token)
        .unwrap_or_default()
        .replace('<', "\\u003c");
    let config = format!("{{\"token\":{quoted},{CONFIG}");
    if route == Route::Config {
        return HttpResponse::new(StatusCode::OK, Content::Json, config);
    }
    let script = format!(
        "(function() {{\n  window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {{}};\n  \
         window._POSTHOG_REMOTE_CONFIG[{quoted}] = {{\n    config: {config},\n    siteApps: []\n  }}\n}})();\n"
    );
    HttpResponse::new(StatusCode::OK, Content::JavaScript, Bytes::from(script))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn no_flag_is_on_and_no_quota_is_named() {
        let value: Value = serde_json::from_slice(&stub(Route::Flags).body).unwrap();
        assert_eq!(value["featureFlags"], serde_json::json!({}));
        assert_eq!(value["flags"], serde_json::json!({}));
        assert_eq!(
            value["supportedCompression"],
            serde_json::json!(["gzip", "gzip-js"])
        );
        assert_eq!(value["sessionRecording"], false);
        assert_eq!(value["errorsWhileComputingFlags"], false);
        assert_eq!(value.get("quotaLimited"), None);
    }

    #[test]
    fn a_config_names_its_token_and_the_endpoint() {
        let body = config(Route::Config, "/array/phc_x/config").body;
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["token"], "phc_x");
        assert_eq!(value["analytics"]["endpoint"], "/i/v0/e/");
        assert_eq!(value["hasFeatureFlags"], false);
        assert_eq!(value.get("surveys"), None);
    }

    #[test]
    fn a_token_cannot_break_out_of_the_script() {
        let body = config(Route::ConfigJs, "/array/\"];alert(1)//</script>/config.js").body;
        let script = String::from_utf8(body.to_vec()).unwrap();
        assert!(script.contains(r#""\"];alert(1)""#), "{script}");
        assert!(!script.contains("</script>"), "{script}");
    }
}
