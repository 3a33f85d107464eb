//! Sources of plugin catalogues.

use super::error::CatalogueError;
use millrace_dial::tls;
use reqwest::Client;
use reqwest::redirect::Policy;
use std::error::Error as _;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use thiserror::Error;
use tokio::task::spawn_blocking;
use url::Url;

/// Size limit of a file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Timeout of a download of one file.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Files of the built-in catalogue.
const BUILT_IN: [(&str, &str); 5] = [
    ("plugins.json", include_str!("../../plugins/plugins.json")),
    (
        "property-filter/index.js",
        include_str!("../../plugins/property-filter/index.js"),
    ),
    (
        "property-filter/plugin.json",
        include_str!("../../plugins/property-filter/plugin.json"),
    ),
    (
        "webhook/index.js",
        include_str!("../../plugins/webhook/index.js"),
    ),
    (
        "webhook/plugin.json",
        include_str!("../../plugins/webhook/plugin.json"),
    ),
];

/// Error in the address of a catalogue.
#[derive(Clone, Debug, Error)]
pub enum CatalogueSourceError {
    /// The scheme is neither http nor https.
    #[error("a plugin catalogue is a folder or an http or https URL")]
    Scheme,
    /// The URL has a query or a fragment; files are below its path.
    #[error("the URL of the plugin catalogue may have neither a query nor a fragment")]
    Query,
    /// The URL is invalid.
    #[error("the URL of the plugin catalogue is not valid: {0}")]
    Url(#[from] url::ParseError),
}

/// Location of a catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CatalogueSource {
    /// Built into this program.
    #[default]
    BuiltIn,
    /// A folder.
    Folder(PathBuf),
    /// A URL with a slash at its end; files are below it.
    Url(Url),
}

impl CatalogueSource {
    /// Parses a folder or a URL, as an operator writes it.
    ///
    /// # Errors
    ///
    /// The URL is invalid, is neither http nor https, or has a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, CatalogueSourceError> {
        match text.split_once("://") {
            Some(("http" | "https", _)) => {}
            Some(_) => return Err(CatalogueSourceError::Scheme),
            None => return Ok(Self::Folder(PathBuf::from(text))),
        }
        // Joining a path to a URL replaces everything after its last slash.
        let text = format!("{}/", text.trim_end_matches('/'));
        let base: Url = text.parse()?;
        if base.query().is_some() || base.fragment().is_some() {
            return Err(CatalogueSourceError::Query);
        }
        Ok(Self::Url(base))
    }

    /// Reads a file, by its path below the catalogue.
    pub(super) async fn read(&self, name: &str) -> Result<String, CatalogueError> {
        let unreadable = |reason: String| CatalogueError::Unreadable {
            name: name.to_owned(),
            reason,
        };
        let outside = || unreadable("it is outside of the catalogue".to_owned());
        if !is_inside(name) {
            return Err(outside());
        }
        match self {
            Self::BuiltIn => {
                let file = BUILT_IN.iter().find(|(known, _)| *known == name);
                file.map(|(_, text)| (*text).to_owned())
                    .ok_or_else(|| unreadable("there is no such file".to_owned()))
            }
            Self::Folder(folder) => {
                let path = folder.join(name);
                let read = spawn_blocking(move || from_folder(&path)).await;
                let read = read.map_err(|ended| unreadable(ended.to_string()))?;
                read.map_err(unreadable)
            }
            Self::Url(base) => {
                let url = base
                    .join(name)
                    .map_err(|error| unreadable(error.to_string()))?;
                if !url.as_str().starts_with(base.as_str()) {
                    return Err(outside());
                }
                let read = from_server(url, FETCH_TIMEOUT).await;
                read.map_err(unreadable)
            }
        }
    }
}

/// Returns true if a name is a path below the catalogue, in a folder and joined to a URL alike: in
/// URLs `:` ends a scheme, and `\` counts as `/`.
fn is_inside(name: &str) -> bool {
    let inside = |component: Component<'_>| matches!(component, Component::Normal(_));
    !name.contains(['\\', ':']) && Path::new(name).components().all(inside)
}

fn from_folder(path: &Path) -> Result<String, String> {
    let read = || {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error: std::io::Error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(too_long());
    }
    Ok(text)
}

/// HTTP client, or the reason that there is none. It keeps no connection, as the runtime that
/// opened one may end before it.
static CLIENT: LazyLock<Result<Client, String>> = LazyLock::new(|| {
    let tls = tls::client(tls::authorities()).map_err(|error| error.to_string())?;
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        // The server must not redirect us to other hosts.
        .redirect(Policy::none())
        .pool_max_idle_per_host(0)
        .build();
    client.map_err(|error| error.to_string())
});

/// Downloads a file; `timeout` is for all of it.
async fn from_server(url: Url, timeout: Duration) -> Result<String, String> {
    let client = CLIENT.as_ref().map_err(Clone::clone)?;
    let response = client.get(url).timeout(timeout).send().await;
    let mut response = response.map_err(|error| reason(&error))?;
    if !response.status().is_success() {
        return Err(format!("the server answers {}", response.status()));
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| reason(&error))? {
        if (bytes.len() + piece.len()) as u64 > FILE_BYTES_MAX {
            return Err(too_long());
        }
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Innermost error, which names the cause; the outer ones repeat the address.
fn reason(error: &reqwest::Error) -> String {
    let chain = std::iter::successors(error.source(), |error| (*error).source());
    chain
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

fn too_long() -> String {
    format!("it has more than {FILE_BYTES_MAX} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin_catalogue::PluginCatalogue;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Longer than the download takes on a busy machine.
    const SOON: Duration = Duration::from_secs(20);

    /// Address of a server that sends the first bytes once it is asked, and then the others again
    /// and again.
    async fn server(first: &'static str, others: &'static [u8], pause: Duration) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1_024]).await;
            let mut sent = stream.write_all(first.as_bytes()).await;
            while sent.is_ok() {
                tokio::time::sleep(pause).await;
                sent = stream.write_all(others).await;
            }
        });
        format!("http://{address}/").parse().unwrap()
    }

    #[tokio::test]
    async fn a_download_ends_at_its_limit_of_bytes_or_of_time() {
        const HEAD: &str = "HTTP/1.1 200 OK\r\n\r\n";
        const PIECE: &[u8] = &[b'a'; 64 << 10];
        let (short, pause) = (Duration::from_millis(300), Duration::from_millis(10));
        assert_eq!(FETCH_TIMEOUT, Duration::from_secs(10));
        let table: [(&str, &str, &[u8], Duration, &str); 4] = [
            ("says nothing", "", b"", short, "timed out"),
            (
                "sends a slow head",
                "HTTP/1.1 200 OK\r\nA: ",
                b"a",
                short,
                "timed out",
            ),
            ("sends a slow body", HEAD, b"a", short, "timed out"),
            (
                "sends an endless body",
                HEAD,
                PIECE,
                SOON,
                "more than 1048576 bytes",
            ),
        ];
        for (kind, first, others, timeout, expected) in table {
            let url = server(first, others, pause).await;
            let read = tokio::time::timeout(2 * SOON, from_server(url, timeout)).await;
            let error = read.expect("it ends").unwrap_err();
            assert!(error.contains(expected), "a server that {kind}: {error}");
        }
    }

    #[tokio::test]
    async fn every_built_in_plugin_can_be_installed() {
        let catalogue = PluginCatalogue::default();
        let entries = catalogue.entries().await.unwrap();
        assert!(!entries.is_empty());
        let mut files = 1;
        for entry in entries {
            let release = catalogue.release(&entry.url).await.unwrap().unwrap();
            assert_eq!(release.tag, entry.tag);
            assert!(!release.files.is_empty(), "{}", entry.name);
            files += release.files.len();
        }
        assert_eq!(files, BUILT_IN.len(), "every file belongs to a plugin");
        assert!(
            catalogue
                .release("https://elsewhere.example/")
                .await
                .unwrap()
                .is_none()
        );
    }

    #[tokio::test]
    async fn a_folder_is_read_on_every_request_and_paths_outside_are_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let index = folder.path().join("plugins.json");
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let source = CatalogueSource::parse(inside.to_str().unwrap()).unwrap();
        let catalogue = PluginCatalogue::new(source);
        catalogue.entries().await.unwrap_err();
        std::fs::write(inside.join("plugins.json"), "[]").unwrap();
        assert!(catalogue.entries().await.unwrap().is_empty());
        std::fs::write(&index, "secret").unwrap();
        std::fs::create_dir(inside.join("a:")).unwrap();
        std::fs::write(inside.join("a:/plugins.json"), "here").unwrap();
        for path in ["..", "/etc", "a/../..", "a:"] {
            let entry = format!(
                r#"[{{"name":"a","url":"u","type":"data_in","tag":"1","path":"{path}","files":["plugins.json"]}}]"#
            );
            std::fs::write(inside.join("plugins.json"), entry).unwrap();
            let error = catalogue.release("u").await.unwrap_err();
            assert!(
                matches!(error, CatalogueError::Unreadable { .. }),
                "{path}: {error}"
            );
        }
        let long = " ".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
        std::fs::write(inside.join("plugins.json"), long).unwrap();
        catalogue.entries().await.unwrap_err();
    }
}
