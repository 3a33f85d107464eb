//! Authorities with certificates in files, and clients that trust them.

#![allow(clippy::unwrap_used, reason = "tests end here")]

use crate::files::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, SupportedProtocolVersion};

/// Year in which certificates expire that are asked for without one.
const YEAR_USUAL: i32 = 2099;

/// Settings of a client that are complete but for its own certificate.
type TrustingClient = ConfigBuilder<ClientConfig, WantsClientCert>;

/// Authority that only clients with its file trust.
#[derive(Debug)]
pub struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
    issued: AtomicUsize,
}

impl Default for TestAuthority {
    fn default() -> Self {
        Self::new()
    }
}

impl TestAuthority {
    /// Makes an authority.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self {
            issuer,
            dir,
            issued: AtomicUsize::new(0),
        }
    }

    /// Folder of its files, which goes with it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// File with its own certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.dir().join("ca.pem")
    }

    /// Issues a certificate for a name or an address, in files of its own.
    #[must_use]
    pub fn files(&self, name: &str) -> TlsFiles {
        self.files_until(name, YEAR_USUAL)
    }

    /// Issues a certificate that expires with the first second of a year.
    #[must_use]
    pub fn files_until(&self, name: &str, year: i32) -> TlsFiles {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let issuer: &Issuer<'static, KeyPair> = &self.issuer;
        let certificate = params.signed_by(&key, issuer).unwrap();
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let files = TlsFiles {
            certificate: self.dir().join(format!("{number}.pem")),
            key: self.dir().join(format!("{number}.key")),
            client_authority: None,
        };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// Client that trusts the authority and speaks these versions of TLS.
    #[must_use]
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        self.trusting(versions).with_no_client_auth()
    }

    /// Client that also has a certificate, of another authority or of this one.
    #[must_use]
    pub fn client_known_to(
        &self,
        authority: &Self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["client".to_owned()]).unwrap();
        let issuer: &Issuer<'static, KeyPair> = &authority.issuer;
        let certificate = params.signed_by(&key, issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        let config = self.trusting(versions).with_client_auth_cert(chain, key);
        config.unwrap()
    }

    fn trusting(&self, versions: &[&'static SupportedProtocolVersion]) -> TrustingClient {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
    }
}

/// Puts a copy of a certificate and its key in the place of others, one after the other, as
/// whoever renews certificates does it.
pub fn renew(files: &TlsFiles, by: &TlsFiles) {
    replace(&files.certificate, &by.certificate);
    replace(&files.key, &by.key);
}

/// Puts a copy of a file in the place of another one.
pub fn replace(file: &Path, by: &Path) {
    let new = file.with_extension("new");
    std::fs::copy(by, &new).unwrap();
    std::fs::rename(&new, file).unwrap();
}
