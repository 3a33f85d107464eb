//! Google Cloud Storage.

use super::super::config::FilesConfig;
use super::super::settings::read;
use super::bucket::{Objects, connector, retries};
use super::classify::StoreLabels;
use super::one_secret::OneSecret;
use crate::error::ExportError;
use millrace_catalog::bounded_json;
use millrace_dial::Guard;
use object_store::gcp::GoogleCloudStorageBuilder;
use serde::Deserialize;
use serde_json::Value;

/// Fields of a key that lead to another server than Google's, or bypass its login; for emulators.
const ELSEWHERE: [&str; 2] = ["gcs_base_url", "disable_oauth"];

const SECRET: OneSecret = OneSecret {
    field: "service_account_key",
    wanted: "Google Cloud Storage needs credentials. Give service_account_key, the whole JSON of \
             a key of a service account.",
};

#[derive(Deserialize)]
struct GcsSettings {
    bucket_name: String,
    #[serde(default)]
    prefix: Option<String>,
}

pub(super) fn open(
    config: &FilesConfig<'_>,
    guard: &Guard,
) -> Result<(Objects, String), ExportError> {
    let settings: GcsSettings = read(config.config)?;
    let key = SECRET.read(config, |key| usable(key, guard))?;
    let built = GoogleCloudStorageBuilder::new()
        .with_http_connector(connector(guard))
        .with_retry(retries())
        .with_bucket_name(&settings.bucket_name)
        .with_service_account_key(key)
        .build();
    let labels = StoreLabels {
        service: "Google Cloud Storage",
        bucket_field: "bucket_name",
        bucket: settings.bucket_name,
        credentials: SECRET.field,
        location: "the network",
    };
    SECRET.opened(built, labels, settings.prefix)
}

/// Removes fields for emulators from a key, unless private networks are allowed.
fn usable(key: &str, guard: &Guard) -> Option<String> {
    let parsed = bounded_json::parse(key.as_bytes(), bounded_json::VALUES_MAX);
    let Ok(Value::Object(mut key)) = parsed else {
        return None;
    };
    if !guard.allows_private() {
        key.retain(|name, _| !ELSEWHERE.contains(&name.as_str()));
    }
    Some(Value::Object(key).to_string())
}
