//! Which values of a plugin's configuration are secrets.
//!
//! The plugin's schema says so, when values are set and when they are read. What was a secret once
//! stays one: whoever may edit the schema afterwards can hide more, and show nothing.

use super::PluginUse;
use crate::entities::plugin_configs::{Model, SecretKeys};
use sea_orm::prelude::Json;
use serde_json::{Map, Value};

/// What stands for a secret.
const MASK: &str = "********";

impl PluginUse {
    /// The values by their keys, without secrets. The only form of them that people may see.
    #[must_use]
    pub fn shown_config(&self) -> Json {
        let mut shown = self.config.config.clone();
        let Some(values) = shown.as_object_mut() else {
            return MASK.into();
        };
        let then = was_secret(&self.config);
        let now = secret_keys(&self.seen.plugin.config_schema, values);
        for key in then.0.iter().chain(&now) {
            if let Some(value) = values.get_mut(key) {
                *value = MASK.into();
            }
        }
        shown
    }
}

/// The keys whose values are secrets from now on: by the schema, and those that were before.
pub(super) fn secret_from_now_on(
    schema: &Json,
    values: &Json,
    before: Option<&Model>,
) -> SecretKeys {
    let now = values.as_object().map(|values| secret_keys(schema, values));
    let then = before.map(|before| was_secret(before).0);
    let mut keys: Vec<String> = now.into_iter().chain(then).flatten().collect();
    keys.sort_unstable();
    keys.dedup();
    SecretKeys(keys)
}

/// The keys whose values were secrets when they were set; all, if nobody noted that.
fn was_secret(config: &Model) -> SecretKeys {
    let all = || {
        let values = config.config.as_object().into_iter().flatten();
        SecretKeys(values.map(|(key, _)| key.clone()).collect())
    };
    config.secret_keys.clone().unwrap_or_else(all)
}

/// The keys among values that a schema calls secret; all, if it is no list that could say so.
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
    fn what_the_schema_calls_secret_is_secret() {
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
