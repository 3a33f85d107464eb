//! Azure Blob Storage: opens a container by its connection string.

use super::super::config::FilesConfig;
use super::super::settings::read;
use super::bucket::{Objects, connector, is_plain, retries};
use super::classify::StoreLabels;
use super::one_secret::OneSecret;
use crate::error::ExportError;
use millrace_dial::Guard;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use serde::Deserialize;
use url::{Host, Url};

/// Account built into Microsoft's emulator, which is public.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";

const SECRET: OneSecret = OneSecret {
    field: "connection_string",
    wanted: "Azure needs a connection_string with an AccountName and an AccountKey, or a \
             BlobEndpoint and a SharedAccessSignature.",
};

/// Settings of a container, without the secret.
#[derive(Deserialize)]
struct AzureSettings {
    container_name: String,
    #[serde(default)]
    prefix: Option<String>,
}

/// Opens the container; returns it with the template of the prefix in it.
pub(super) fn open(
    config: &FilesConfig<'_>,
    guard: &Guard,
) -> Result<(Objects, String), ExportError> {
    let settings: AzureSettings = read(config.config)?;
    let connection = SECRET.read(config, Connection::parse)?;
    let builder = MicrosoftAzureBuilder::new()
        .with_http_connector(connector(guard))
        .with_retry(retries())
        .with_container_name(&settings.container_name)
        .with_account(&connection.account)
        .with_endpoint(connection.endpoint);
    let builder = match connection.credential {
        Credential::Key(key) => builder.with_access_key(key),
        Credential::Signature(sas) => builder.with_config(AzureConfigKey::SasKey, sas),
    };
    let labels = StoreLabels {
        service: "Azure",
        bucket_field: "container_name",
        bucket: settings.container_name,
        credentials: SECRET.field,
        location: SECRET.field,
    };
    SECRET.opened(builder.build(), labels, settings.prefix)
}

/// Credential of a connection string.
#[derive(Debug, PartialEq, Eq)]
enum Credential {
    /// Key of the account.
    Key(String),
    /// Shared access signature (SAS).
    Signature(String),
}

/// Parsed connection string.
#[derive(Debug, PartialEq, Eq)]
struct Connection {
    account: String,
    endpoint: String,
    credential: Credential,
}

impl Connection {
    fn parse(text: &str) -> Option<Self> {
        let parts = text
            .split(';')
            .filter_map(|part| part.trim().split_once('='));
        let mut named = ConnectionFields::default();
        parts.for_each(|(name, value)| named.set(name, value));
        if named.use_emulator {
            return Some(Self {
                account: EMULATOR_ACCOUNT.to_owned(),
                endpoint: EMULATOR_ENDPOINT.to_owned(),
                credential: Credential::Key(EMULATOR_KEY.to_owned()),
            });
        }
        let key = named.key.map(|key| Credential::Key(key.to_owned()));
        let signature = named
            .signature
            .map(|sas| sas.trim_start_matches('?').to_owned());
        let credential = key.or_else(|| signature.map(Credential::Signature))?;
        let endpoint = match named.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => {
                let protocol = named.protocol.unwrap_or("https");
                let suffix = named.suffix.unwrap_or("core.windows.net");
                format!("{protocol}://{}.blob.{suffix}", named.account?)
            }
        };
        let url = Url::parse(&endpoint).ok().filter(is_plain)?;
        let account = match named.account {
            Some(account) => account.to_owned(),
            None => account_of(&url)?,
        };
        Some(Self {
            account,
            endpoint,
            credential,
        })
    }
}

/// Fields of a connection string that blobs need, as they were written.
#[derive(Default)]
struct ConnectionFields<'a> {
    account: Option<&'a str>,
    key: Option<&'a str>,
    endpoint: Option<&'a str>,
    signature: Option<&'a str>,
    protocol: Option<&'a str>,
    suffix: Option<&'a str>,
    use_emulator: bool,
}

impl<'a> ConnectionFields<'a> {
    fn set(&mut self, name: &str, value: &'a str) {
        match name {
            "AccountName" => self.account = Some(value),
            "AccountKey" => self.key = Some(value),
            "BlobEndpoint" => self.endpoint = Some(value),
            "SharedAccessSignature" => self.signature = Some(value),
            "DefaultEndpointsProtocol" => self.protocol = Some(value),
            "EndpointSuffix" => self.suffix = Some(value),
            "UseDevelopmentStorage" => self.use_emulator = value.eq_ignore_ascii_case("true"),
            // Queues, tables and files are not used.
            _ => {}
        }
    }
}

/// Account of an endpoint: the first label of a host name, or the first part of the path for an
/// address.
fn account_of(url: &Url) -> Option<String> {
    let account = match url.host()? {
        Host::Domain(name) => name.split('.').next(),
        _ => url.path_segments()?.next(),
    };
    account
        .filter(|account| !account.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_have_account_endpoint_and_credential() {
        let key = |key: &str| Credential::Key(key.to_owned());
        let sas = |sas: &str| Credential::Signature(sas.to_owned());
        let table = [
            (
                "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5==;\
                 EndpointSuffix=core.windows.net",
                Some(("acc", "https://acc.blob.core.windows.net", key("a2V5=="))),
            ),
            (
                " AccountName=acc ; AccountKey=a2V5== ;",
                Some(("acc", "https://acc.blob.core.windows.net", key("a2V5=="))),
            ),
            (
                "BlobEndpoint=https://acc.blob.core.windows.net/;SharedAccessSignature=?sv=1&sig=x%3D",
                Some((
                    "acc",
                    "https://acc.blob.core.windows.net",
                    sas("sv=1&sig=x%3D"),
                )),
            ),
            (
                "AccountKey=a2V5==;BlobEndpoint=http://127.0.0.1:10000/acc",
                Some(("acc", "http://127.0.0.1:10000/acc", key("a2V5=="))),
            ),
            (
                "UseDevelopmentStorage=true",
                Some((EMULATOR_ACCOUNT, EMULATOR_ENDPOINT, key(EMULATOR_KEY))),
            ),
            ("AccountName=acc", None),
            ("AccountKey=a2V5==", None),
            (
                "AccountName=a@evil.example/;AccountKey=a2V5==;EndpointSuffix=x?",
                None,
            ),
            ("BlobEndpoint=ftp://x;AccountKey=a2V5==", None),
            ("BlobEndpoint=https://:canary@x;AccountKey=a2V5==", None),
            ("", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|(account, endpoint, credential)| Connection {
                account: account.to_owned(),
                endpoint: endpoint.to_owned(),
                credential,
            });
            assert_eq!(Connection::parse(text), expected, "{text}");
        }
    }
}
