//! S3 and compatible stores.

use super::super::config::FilesConfig;
use super::super::settings::read;
use super::bucket::{Objects, connector, is_plain, retries};
use super::classify::StoreLabels;
use crate::error::ExportError;
use millrace_dial::Guard;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use serde::Deserialize;
use url::{Host, Url};

#[derive(Deserialize)]
struct S3Settings {
    bucket_name: String,
    region: String,
    prefix: String,
    encryption: Option<String>,
    kms_key_id: Option<String>,
    endpoint_url: Option<String>,
    #[serde(default)]
    use_virtual_style_addressing: bool,
}

pub(super) fn open(
    config: &FilesConfig<'_>,
    guard: &Guard,
) -> Result<(Objects, String), ExportError> {
    let settings: S3Settings = read(config.config)?;
    let credentials = config
        .secret("aws_access_key_id")
        .zip(config.secret("aws_secret_access_key"));
    let Some((id, secret)) = credentials else {
        // The library would use the credentials of this server, which are not the customer's.
        let message = "S3 needs credentials. Give aws_access_key_id and aws_secret_access_key.";
        return Err(ExportError::permanent(message));
    };
    let mut builder = AmazonS3Builder::new()
        .with_http_connector(connector(guard))
        .with_retry(retries())
        .with_bucket_name(&settings.bucket_name)
        .with_region(&settings.region)
        .with_access_key_id(id)
        .with_secret_access_key(secret)
        // Not all compatible stores support it.
        .with_disable_bulk_delete(true)
        .with_virtual_hosted_style_request(settings.use_virtual_style_addressing);
    if let Some(endpoint) = settings.endpoint()? {
        builder = builder.with_endpoint(endpoint);
    }
    for (name, value) in settings.encryption_fields() {
        let key: AmazonS3ConfigKey = name.parse().map_err(|_| not_encrypted())?;
        builder = builder.with_config(key, value);
    }
    let store = builder.build().map_err(|_| not_encrypted())?;
    let labels = StoreLabels {
        service: "S3",
        bucket_field: "bucket_name",
        bucket: settings.bucket_name,
        credentials: "aws_access_key_id and aws_secret_access_key",
        location: "region or endpoint_url",
    };
    Ok((Objects::new(store, labels), settings.prefix))
}

fn not_encrypted() -> ExportError {
    ExportError::permanent(
        "S3 cannot be set up with these settings. Check encryption and kms_key_id.",
    )
}

impl S3Settings {
    /// Fields of encryption, by the library's names.
    fn encryption_fields(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let kind = ("aws_server_side_encryption", self.encryption.as_ref());
        let key = ("aws_sse_kms_key_id", self.kms_key_id.as_ref());
        let fields = [kind, key].into_iter();
        let given = fields.filter_map(|(name, value)| Some((name, value?)));
        given.filter(|(_, value)| !value.is_empty())
    }

    /// URL below which keys are, or of the server that has the bucket.
    fn endpoint(&self) -> Result<Option<String>, ExportError> {
        let Some(text) = self.endpoint_url.as_ref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let mut url = endpoint_url(text)?;
        if self.use_virtual_style_addressing {
            let Some(Host::Domain(name)) = url.host() else {
                let message = "The bucket's name cannot be put before an IP address. Turn \
                               use_virtual_style_addressing off, or change endpoint_url.";
                return Err(ExportError::permanent(message));
            };
            let name = format!("{}.{name}", self.bucket_name);
            url.set_host(Some(&name)).map_err(|_| not_an_endpoint())?;
        }
        Ok(Some(url.as_str().trim_end_matches('/').to_owned()))
    }
}

fn endpoint_url(text: &str) -> Result<Url, ExportError> {
    let url = Url::parse(text).ok().filter(is_plain);
    url.ok_or_else(not_an_endpoint)
}

fn not_an_endpoint() -> ExportError {
    let message = "endpoint_url is not a URL of a server. Give one like https://s3.example.com.";
    ExportError::permanent(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_bucket_is_in_the_path_or_before_the_name() {
        let table = [
            (
                "https://s3.example.com",
                false,
                Some("https://s3.example.com"),
            ),
            (
                "https://s3.example.com/",
                false,
                Some("https://s3.example.com"),
            ),
            (
                "http://8.8.8.8:9000/base/",
                false,
                Some("http://8.8.8.8:9000/base"),
            ),
            (
                "https://s3.example.com:9000",
                true,
                Some("https://b.s3.example.com:9000"),
            ),
            ("http://8.8.8.8", true, None),
            ("https://user:canary@s3.example.com", false, None),
            ("https://s3.example.com/?a", false, None),
            ("https://s3.example.com/#a", false, None),
            ("ftp://s3.example.com", false, None),
            ("s3.example.com", false, None),
        ];
        for (url, virtual_style, expected) in table {
            let config = json!({
                "bucket_name": "b", "region": "r", "prefix": "", "endpoint_url": url,
                "use_virtual_style_addressing": virtual_style,
            });
            let settings: S3Settings = read(&config).unwrap();
            let endpoint = settings.endpoint().map(Option::unwrap);
            assert_eq!(endpoint.ok().as_deref(), expected, "{url}");
        }
    }
}
