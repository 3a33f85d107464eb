//! Location of objects: a store's bucket and the selected keys. Credentials and endpoints are those
//! of the environment.

use super::http::KeyMarks;
use super::keys::ListingElements;
use super::signing::Signing;
use anyhow::{anyhow, bail};
use millrace_objects::StoreConnector;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::{ObjectStore, RetryConfig};
use reqwest::Client;
use std::error::Error as _;
use std::sync::Arc;

/// Kind of object store, and the names that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    S3,
    Google,
    Azure,
}

impl StoreKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Google => "Google Cloud Storage",
            Self::Azure => "Azure",
        }
    }

    /// Environment variables of the credentials.
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

    /// Environment variables that decide the bucket's location.
    pub(super) fn location_settings(self) -> &'static str {
        match self {
            Self::S3 => "AWS_REGION, or AWS_ENDPOINT_URL of a server that is not Amazon's",
            Self::Google => "the name of the bucket",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME",
        }
    }

    /// Elements of the store's listings.
    fn elements(self) -> ListingElements {
        match self {
            Self::S3 | Self::Google => ListingElements {
                object: "Contents",
                key: "Key",
            },
            Self::Azure => ListingElements {
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

/// A bucket and a selection of its objects.
pub(super) struct ObjectLocation {
    pub(super) service: StoreKind,
    /// URL as the user wrote it.
    pub(super) url: String,
    /// The bucket or container.
    pub(super) bucket: String,
    pub(super) selection: KeySelection,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) lister: Arc<dyn PaginatedListStore>,
    marks: KeyMarks,
}

impl std::fmt::Debug for ObjectLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ObjectLocation({})", self.url)
    }
}

/// Selection of objects by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySelection {
    /// The object of this key, or those in it as a folder; all of the bucket if it is empty.
    Folder(String),
    /// Objects whose keys begin with this text.
    Prefix(String),
}

impl ObjectLocation {
    pub(super) fn open(url: &str, http: &Client) -> anyhow::Result<Self> {
        const EXAMPLE: &str = "name one such as s3://bucket/exports/2024, gs://bucket/exports or az://container/exports";
        let Some((scheme, rest)) = url.split_once("://") else {
            bail!("{url} is not a prefix of an object store; {EXAMPLE}");
        };
        let Some(service) = StoreKind::of(scheme) else {
            bail!("{scheme}:// is not a known object store; {EXAMPLE}");
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let selection = match key.strip_suffix('*') {
            Some(prefix) => KeySelection::Prefix(prefix.to_owned()),
            None => KeySelection::Folder(key.trim_end_matches('/').to_owned()),
        };
        let marks = KeyMarks::new(service.elements());
        let opened = open(service, &format!("{scheme}://{bucket}"), http, &marks);
        let (store, lister) = opened.map_err(|error| {
            // The outer error only names the library.
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
            selection,
            store,
            lister,
            marks,
        })
    }

    /// Keys that were left out of listings, as they cannot be requested.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.marks.left_out()
    }
}

type Store = (Arc<dyn ObjectStore>, Arc<dyn PaginatedListStore>);

fn open(
    service: StoreKind,
    url: &str,
    http: &Client,
    marks: &KeyMarks,
) -> object_store::Result<Store> {
    let connector = StoreConnector::new(http.clone(), marks.clone());
    // We retry ourselves, so that the progress shows it.
    let retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    Ok(match service {
        StoreKind::S3 => {
            let store = AmazonS3Builder::from_env()
                .with_http_connector(connector)
                .with_retry(retry)
                .with_url(url)
                .build()?;
            marks.sign_with(Signing::S3(Arc::clone(store.credentials())));
            both(store)
        }
        StoreKind::Google => {
            let store = GoogleCloudStorageBuilder::from_env()
                .with_http_connector(connector)
                .with_retry(retry)
                .with_url(url)
                .build()?;
            marks.sign_with(Signing::Google);
            both(store)
        }
        StoreKind::Azure => {
            let store = MicrosoftAzureBuilder::from_env()
                .with_http_connector(connector)
                .with_retry(retry)
                .with_url(url)
                .build()?;
            marks.sign_with(Signing::Azure(Arc::clone(store.credentials())));
            both(store)
        }
    })
}

fn both<S: ObjectStore + PaginatedListStore>(store: S) -> Store {
    let store = Arc::new(store);
    (Arc::<S>::clone(&store), store)
}
