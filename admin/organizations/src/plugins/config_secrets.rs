//! Secret values of a plugin's configuration.
//!
//! The plugin's schema decides which values are secret, when they are set and when they are read. A
//! value that was secret stays so: a later change of the schema can hide more values, and reveal
//! none. Of a configuration whose secrets were not recorded, every value is one.

use millrace_catalog::entities::plugin_configs::{Model, SecretKeys};
use sea_orm::prelude::Json;
use serde_json::{Map, Value};

/// Mask of a secret.
const MASK: &str = "********";

/// Values of a configuration by their keys, with secrets masked.
pub(super) fn masked(config: &Model, schema: &Json) -> Json {
    let mut shown = config.config.0.clone();
    let Some(values) = shown.as_object_mut() else {
        return MASK.into();
    };
    let then = was_secret(config);
    let now = secret_keys(schema, values);
    for key in then.0.iter().chain(&now) {
        if let Some(value) = values.get_mut(key) {
            *value = MASK.into();
        }
    }
    shown
}

/// Keys whose values were secret when they were set; all, if that was not recorded.
fn was_secret(config: &Model) -> SecretKeys {
    let all = || {
        let values = config.config.as_object().into_iter().flatten();
        SecretKeys(values.map(|(key, _)| key.clone()).collect())
    };
    config.secret_keys.clone().unwrap_or_else(all)
}

/// Keys among `values` that a schema marks as secret; all, if the schema is no list.
fn secret_keys(schema: &Json, values: &Map<String, Value>) -> Vec<String> {
    let is_secret = |key: &str| {
        let Some(entries) = schema.as_array() else {
            return true;
        };
        let of_key = |entry: &&Value| entry.get("key").and_then(Value::as_str) == Some(key);
        let mut of_key = entries.iter().filter(of_key);
        of_key.any(|entry| {
            !matches!(
                entry.get("secret"),
                None | Some(Value::Null | Value::Bool(false))
            )
        })
    };
    let keys = values.keys().filter(|key| is_secret(key));
    keys.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_that_the_schema_marks_as_secret_are_secret() {
        let values = json!({ "token": "t", "url": "u", "other": 1 });
        let all: &[&str] = &["other", "token", "url"];
        let table: [(Json, &[&str]); 8] = [
            (
                json!([{ "key": "token", "secret": true }, { "key": "url", "secret": false }]),
                &["token"],
            ),
            (
                json!([{ "key": "token", "secret": "yes" }, { "key": "url" }]),
                &["token"],
            ),
            (
                json!([{ "key": "token", "secret": false }, { "key": "token", "secret": true }]),
                &["token"],
            ),
            (
                json!([{ "key": "missing", "secret": true }, { "markdown": "text" }, 3]),
                &[],
            ),
            (json!([]), &[]),
            (json!({}), all),
            (json!("free-form"), all),
            (json!({ "token": { "secret": true } }), all),
        ];
        for (schema, expected) in table {
            let mut found = secret_keys(&schema, values.as_object().unwrap());
            found.sort_unstable();
            assert_eq!(found, expected, "{schema}");
        }
    }
}
