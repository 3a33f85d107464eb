//! TLS proxy in front of a server without TLS, with certificates of a test authority.

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

/// Certificate authority that only clients with its file trust.
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

    /// PEM file of its certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Issues a server certificate for a name.
    pub fn certificate(&self, name: &str) -> TlsAcceptor {
        self.signed(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// Issues a certificate that has expired years ago.
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

/// Proxy that terminates TLS. Dropping it breaks its connections.
pub struct TlsProxy {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TlsProxy {
    /// Starts a proxy at a free address.
    pub fn start(certificate: TlsAcceptor, upstream: SocketAddr) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), certificate, upstream)
    }

    /// Starts a proxy at the address of an earlier one.
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

    /// URL of the proxy, by the name `localhost`.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}", self.address.port())
    }

    /// Arguments of a server that connects through the proxy.
    pub fn args(&self, ca_file: &Path) -> Vec<String> {
        let ca_file = ca_file.to_str().unwrap();
        let url = self.url("https");
        let args = ["--clickhouse-url", &url, "--clickhouse-ca-file", ca_file];
        args.map(str::to_owned).to_vec()
    }
}

impl Drop for TlsProxy {
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
            // The client reports its own errors.
            let Ok(mut inside) = certificate.accept(stream).await else {
                return;
            };
            if let Ok(mut server) = TcpStream::connect(upstream).await {
                let _ = copy_bidirectional(&mut inside, &mut server).await;
            }
        });
    }
}
