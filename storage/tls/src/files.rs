//! Files of TLS: certificate, key, and the authority of client certificates.

use crate::error::TlsError;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;

/// Bytes of a file, at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

const CERTIFICATE: &str = "tls_cert";
const KEY: &str = "tls_key";
const CLIENT_AUTHORITY: &str = "tls_client_ca";

/// Paths of certificate, key and authority, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate of the server, and behind it those of the authorities between it and the root.
    pub certificate: PathBuf,
    /// Private key of that certificate.
    pub key: PathBuf,
    /// Certificates of the authorities whose client certificates are accepted; `None`: clients need
    /// no certificate.
    pub client_authority: Option<PathBuf>,
}

/// Content of the files.
pub(crate) struct TlsMaterial {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) client_authorities: Option<RootCertStore>,
    /// Time since 1970 at which the server's certificate expires.
    pub(crate) expires_at: Duration,
}

/// State of a file by which a change is noticed, behind links; `None` where it cannot be looked at.
type FileStamp = Option<[i64; 7]>;

/// State of all files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamps(Vec<FileStamp>);

// === impl TlsFiles ===

impl TlsFiles {
    /// State of the files. To be taken before they are read, so that no change is missed.
    pub(crate) fn stamps(&self) -> FileStamps {
        let files = [&self.certificate, &self.key].into_iter();
        let files = files.chain(&self.client_authority);
        FileStamps(files.map(|path| stamp(path)).collect())
    }

    /// Reads the files.
    ///
    /// # Errors
    /// When one of them cannot be read, or has not the content that it is for.
    pub(crate) fn read(&self) -> Result<TlsMaterial, TlsError> {
        let chain = certificates(CERTIFICATE, &self.certificate)?;
        let expires_at = chain.first().and_then(expiry);
        let expires_at = expires_at.ok_or_else(|| {
            let reason = "the first one is not a certificate of X.509";
            content(CERTIFICATE, &self.certificate, reason.to_owned())
        })?;
        let key = PrivateKeyDer::from_pem_slice(&bytes_of(KEY, &self.key)?);
        let key = key.map_err(|error| content(KEY, &self.key, reason_of(&error)))?;
        let authority = self.client_authority.as_deref();
        Ok(TlsMaterial {
            chain,
            key,
            client_authorities: authority.map(authorities).transpose()?,
            expires_at,
        })
    }
}

/// Reads the certificates of a file, of which there is one at least.
fn certificates(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = bytes_of(setting, path)?;
    let found: Result<Vec<_>, Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(content(setting, path, reason_of(&Error::NoItemsFound)))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(content(setting, path, reason_of(&error))),
    }
}

/// Reads the server's own certificate.
///
/// # Errors
/// When the file cannot be read, or has none.
pub(crate) fn own_certificate(path: &Path) -> Result<CertificateDer<'static>, TlsError> {
    let first = certificates(CERTIFICATE, path)?.into_iter().next();
    first.ok_or_else(|| content(CERTIFICATE, path, reason_of(&Error::NoItemsFound)))
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(CLIENT_AUTHORITY, path)? {
        let added = store.add(certificate);
        added.map_err(|error| content(CLIENT_AUTHORITY, path, error.to_string()))?;
    }
    Ok(store)
}

fn bytes_of(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        match read as u64 > FILE_BYTES_MAX {
            true => Err(io::Error::other("it is larger than 1 MiB")),
            false => Ok(()),
        }
    });
    let failed = |source| TlsError::Read {
        setting,
        path: path.to_owned(),
        source,
    };
    read.map_err(failed).map(|()| bytes)
}

/// Error for a file without the content that its setting wants.
fn content(setting: &'static str, path: &Path, reason: String) -> TlsError {
    TlsError::Content {
        setting,
        path: path.to_owned(),
        content: if setting == KEY {
            "private key without a password"
        } else {
            "certificate"
        },
        reason,
    }
}

/// Words for an error of the parser, without what is in the file: it may be a key.
fn reason_of(error: &Error) -> String {
    let words = match error {
        Error::NoItemsFound => "there is none in it",
        Error::MissingSectionEnd { .. } => "a block has no end",
        _ => "a block is damaged",
    };
    words.to_owned()
}

/// Time since 1970 at which a certificate expires.
fn expiry(certificate: &CertificateDer<'static>) -> Option<Duration> {
    let certificate = CertificateInner::<Raw>::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    Some(validity.not_after.to_unix_duration())
}

fn stamp(path: &Path) -> FileStamp {
    let file = std::fs::metadata(path).ok()?;
    Some([
        file.dev().cast_signed(),
        file.ino().cast_signed(),
        file.size().cast_signed(),
        file.mtime(),
        file.mtime_nsec(),
        // A time of change that copies of files, with the times of their originals, do not set.
        file.ctime(),
        file.ctime_nsec(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestAuthority;

    #[test]
    fn a_file_without_its_content_is_named_with_the_reason() {
        let authority = TestAuthority::new();
        let files = authority.files("localhost");
        let pem = std::fs::read_to_string(&files.certificate).unwrap();
        let half = pem.split("-----END").next().unwrap().to_owned();
        let table = [
            ("empty", String::new(), "there is none in it"),
            ("cut off", half, "a block has no end"),
            ("text", "-----BEGIN KEY\n".to_owned(), "a block is damaged"),
            ("large", "x".repeat(2 << 20), "larger than 1 MiB"),
        ];
        let path = authority.dir().join("other.pem");
        let mut others = [files.clone(), files.clone(), files.clone()];
        path.clone_into(&mut others[0].certificate);
        path.clone_into(&mut others[1].key);
        others[2].client_authority = Some(path.clone());
        for (what, text, expected) in table {
            std::fs::write(&path, text).unwrap();
            for (setting, other) in [CERTIFICATE, KEY, CLIENT_AUTHORITY].iter().zip(&others) {
                let error = other.read().err().unwrap().to_string();
                assert!(error.starts_with(setting), "{what}: {error}");
                assert!(error.contains("other.pem"), "{what}: {error}");
                assert!(error.contains(expected), "{what}: {error}");
            }
        }
        assert!(files.read().is_ok());
    }

    #[test]
    fn the_expiry_is_that_of_the_servers_own_certificate() {
        let authority = TestAuthority::new();
        let files = authority.files_until("localhost", 2031);
        let expires_at = files.read().unwrap().expires_at.as_secs();
        // 1 January 2031.
        assert_eq!(expires_at, 1_924_992_000);
    }

    #[test]
    fn a_change_of_any_file_changes_the_stamps() {
        let authority = TestAuthority::new();
        let mut files = authority.files("localhost");
        files.client_authority = Some(authority.certificate());
        let mut before = files.stamps();
        assert_eq!(before, files.stamps());
        let authority_file = authority.certificate();
        for path in [&files.certificate, &files.key, &authority_file] {
            let content = std::fs::read(path).unwrap();
            // In the place of the file, as whoever renews certificates does it.
            let new = path.with_extension("new");
            std::fs::write(&new, content).unwrap();
            std::fs::rename(&new, path).unwrap();
            let now = files.stamps();
            assert_ne!(before, now, "{}", path.display());
            before = now;
        }
    }
}
