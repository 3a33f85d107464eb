//! TLS in front of a server that has none, with certificates by an authority of the test's own.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Vouches for certificates; nobody trusts it but who is told to.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, dir }
    }

    /// The PEM file of its certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A server's certificate for a name, and its key.
    pub fn certificate(&self, name: &str) -> TlsAcceptor {
        self.signed(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// One that was good until years ago.
    pub fn expired(&self, name: &str) -> TlsAcceptor {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.signed(&params)
    }

    fn signed(&self, params: &CertificateParams) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Takes connections by TLS and passes on what is in them. Dropped, it breaks them wherever they are.
pub struct Front {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    /// Listens where nobody does yet.
    pub fn start(certificate: TlsAcceptor, upstream: SocketAddr) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), certificate, upstream)
    }

    /// Listens where another one did.
    pub fn start_at(address: SocketAddr, certificate: TlsAcceptor, upstream: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = {
            let _entered = runtime.enter();
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(address).unwrap();
            socket.listen(64).unwrap()
        };
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(&listener, &certificate, upstream) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Its URL by the name `localhost`.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}", self.address.port())
    }

    /// Arguments of a server that is to use it.
    pub fn args(&self, ca_file: &Path) -> Vec<String> {
        let ca_file = ca_file.to_str().unwrap();
        let url = self.url("https");
        let args = ["--clickhouse-url", &url, "--clickhouse-ca-file", ca_file];
        args.map(str::to_owned).to_vec()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: &TcpListener, certificate: &TlsAcceptor, upstream: SocketAddr) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let certificate = certificate.clone();
        tokio::spawn(async move {
            // What a client does not like is the client's to say.
            let Ok(mut inside) = certificate.accept(stream).await else {
                return;
            };
            if let Ok(mut server) = TcpStream::connect(upstream).await {
                let _ = copy_bidirectional(&mut inside, &mut server).await;
            }
        });
    }
}
