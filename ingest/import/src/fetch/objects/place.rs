//! What is named, and the store that has it. Credentials and endpoints are those of the environment.

use super::blame;
use super::http::Connector;
use super::keys::Form;
use super::signing::Signing;
use anyhow::{anyhow, bail};
use millrace_sources::FetchError;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::{Error, ObjectStore, RetryConfig};
use reqwest::Client;
use std::error::Error as _;
use std::sync::Arc;

/// Whose store, and what it calls its things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    S3,
    Google,
    Azure,
}

impl Service {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Google => "Google Cloud Storage",
            Self::Azure => "Azure",
        }
    }

    /// The variables that have the credentials.
    pub(super) fn variables(self) -> &'static str {
        match self {
            Self::S3 => {
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if they are for a time, AWS_SESSION_TOKEN"
            }
            Self::Google => {
                "GOOGLE_SERVICE_ACCOUNT, which names the file of a service account's key"
            }
            Self::Azure => {
                "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_TOKEN"
            }
        }
    }

    /// The variables that say where the bucket is.
    pub(super) fn whereabouts(self) -> &'static str {
        match self {
            Self::S3 => "AWS_REGION, or AWS_ENDPOINT_URL of a server that is not Amazon's",
            Self::Google => "the name of the bucket",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME",
        }
    }

    /// How it writes what it lists.
    fn form(self) -> Form {
        match self {
            Self::S3 | Self::Google => Form {
                object: "Contents",
                key: "Key",
            },
            Self::Azure => Form {
                object: "Blob",
                key: "Name",
            },
        }
    }

    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" | "s3a" => Some(Self::S3),
            "gs" => Some(Self::Google),
            "az" | "azure" | "adl" | "abfs" | "abfss" => Some(Self::Azure),
            _ => None,
        }
    }
}

/// A bucket, and which of its objects.
pub(super) struct Place {
    pub(super) service: Service,
    /// As it was named.
    pub(super) url: String,
    /// The bucket or container.
    pub(super) bucket: String,
    pub(super) wanted: Wanted,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) lister: Arc<dyn PaginatedListStore>,
    connector: Connector,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Place({})", self.url)
    }
}

/// Which objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The one of this key, or those below it as a folder; all of the bucket when it is empty.
    Below(String),
    /// Those whose keys begin so.
    Beginning(String),
}

impl Place {
    pub(super) fn open(url: &str, http: &Client) -> anyhow::Result<Self> {
        const EXAMPLE: &str = "name one such as s3://bucket/exports/2024, gs://bucket/exports or az://container/exports";
        let Some((scheme, rest)) = url.split_once("://") else {
            bail!("{url} is no prefix of an object store; {EXAMPLE}");
        };
        let Some(service) = Service::of(scheme) else {
            bail!("{scheme}:// is none of the object stores that are known; {EXAMPLE}");
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let wanted = match key.strip_suffix('*') {
            Some(beginning) => Wanted::Beginning(beginning.to_owned()),
            None => Wanted::Below(key.trim_end_matches('/').to_owned()),
        };
        let connector = Connector::new(http.clone(), service.form());
        let opened = open(service, &format!("{scheme}://{bucket}"), &connector);
        let (store, lister) = opened.map_err(|error| {
            // What is above it says which library it was.
            let reason = error
                .source()
                .map_or(error.to_string(), ToString::to_string);
            anyhow!(
                "{url} cannot be opened: {reason}. Set {}",
                service.variables()
            )
        })?;
        Ok(Self {
            service,
            url: url.to_owned(),
            bucket: bucket.to_owned(),
            wanted,
            store,
            lister,
            connector,
        })
    }

    /// Keys that were left out of what was listed, as nobody can ask for them.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.connector.left_out()
    }

    /// What an error of the store means, for those who asked for this.
    pub(super) fn fault(&self, error: &Error, what: &str) -> FetchError {
        blame::fault(self, error, what)
    }
}

type Store = (Arc<dyn ObjectStore>, Arc<dyn PaginatedListStore>);

fn open(service: Service, url: &str, connector: &Connector) -> object_store::Result<Store> {
    // We try again ourselves, where those who watch can see it.
    let retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    Ok(match service {
        Service::S3 => {
            let store = AmazonS3Builder::from_env()
                .with_http_connector(connector.clone())
                .with_retry(retry)
                .with_url(url)
                .build()?;
            connector.sign_with(Signing::S3(Arc::clone(store.credentials())));
            both(store)
        }
        Service::Google => {
            let store = GoogleCloudStorageBuilder::from_env()
                .with_http_connector(connector.clone())
                .with_retry(retry)
                .with_url(url)
                .build()?;
            connector.sign_with(Signing::Google);
            both(store)
        }
        Service::Azure => {
            let store = MicrosoftAzureBuilder::from_env()
                .with_http_connector(connector.clone())
                .with_retry(retry)
                .with_url(url)
                .build()?;
            connector.sign_with(Signing::Azure(Arc::clone(store.credentials())));
            both(store)
        }
    })
}

fn both<S: ObjectStore + PaginatedListStore>(store: S) -> Store {
    let store = Arc::new(store);
    (Arc::<S>::clone(&store), store)
}
