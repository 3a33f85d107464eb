//! Server on a real socket over a fixture, for clients outside of this process.

use crate::Fixture;
use crate::fake_live::FakeLive;
use crate::fake_queries::FakeQueries;
use crate::fake_rejected_events::FakeRejectedEvents;
use crate::fake_stats::FakeStats;
use millrace_admin::{ApiConfig, Services};
use millrace_exports::SecretKey;
use millrace_organizations::testing::SourcesInProcess;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server; it ends when this is dropped.
pub struct TestServer {
    pub fixture: Fixture,
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<std::io::Result<()>>,
}

impl TestServer {
    /// Starts a server without rate limits.
    pub async fn start_unthrottled() -> Self {
        Self::start(|_| ()).await
    }

    /// Starts a server; `set` changes its configuration.
    pub async fn start(set: impl FnOnce(&mut ApiConfig)) -> Self {
        let fixture = Fixture::new().await;
        Self::over(fixture, |services| set(&mut services.config)).await
    }

    /// Starts a server over an existing fixture; `set` changes its services.
    pub async fn over(fixture: Fixture, set: impl FnOnce(&mut Services)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::behind(listener, fixture, set).await
    }

    /// Starts a server on an existing listener.
    pub async fn behind(
        listener: TcpListener,
        fixture: Fixture,
        set: impl FnOnce(&mut Services),
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let mut services = Services::new(fixture.catalog.clone(), SecretKey::generate().unwrap());
        services.source_parser = Some(Arc::new(SourcesInProcess));
        services.project_queries = Some(Arc::new(FakeQueries));
        services.live = Some(Arc::new(FakeLive::default()));
        services.rejected_events = Some(Arc::new(FakeRejectedEvents::default()));
        services.project_stats = Some(Arc::new(FakeStats::default()));
        services.config = ApiConfig {
            wrong_keys_per_minute_max: 0,
            ..Fixture::unthrottled()
        };
        set(&mut services);
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let server = tokio::spawn(millrace_admin::serve(listener, services, shutdown));
        Self {
            fixture,
            address,
            stop,
            server,
        }
    }

    /// Stops the server and waits until it has ended.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.server.await.unwrap().unwrap();
    }
}
