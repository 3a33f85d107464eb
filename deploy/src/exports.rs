//! Batch exports as a part of the process: on a thread and a runtime of their own, as rows on their
//! way must hold up neither events nor the API.

use crate::admin;
use crate::config::Config;
use crate::{open, secret_key};
use anyhow::Context;
use millrace_admin::ExportNotices;
use millrace_catalog::SecretKey;
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_exports::destination::Destinations;
use millrace_exports::engine::{Engine, EngineOptions};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Threads: compression of one run must not keep another from saying how far it is.
const THREADS: usize = 2;

/// The running engine of exports; it ends with the process, or when it is stopped.
#[derive(Debug)]
pub struct Exports {
    stop: CancellationToken,
    ended: oneshot::Receiver<()>,
}

impl Exports {
    /// Starts the thread. The catalog must be migrated.
    ///
    /// # Errors
    /// When the key of secrets cannot be read, or the system has no room for a thread.
    pub fn start(config: &Config, settings: &Settings) -> anyhow::Result<Self> {
        let secret_key = secret_key::find(config)?;
        let clickhouse = ClickHouse::new(settings);
        let (stop, config) = (CancellationToken::new(), config.clone());
        let (end, ended) = oneshot::channel();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("exports".to_owned())
            .spawn(move || {
                if let Err(error) = serve(&config, secret_key, clickhouse, &stopped) {
                    tracing::error!(error = format!("{error:#}"), "batch exports do not run");
                }
                // Nobody waits for it where the process ends otherwise.
                let _ = end.send(());
            })?;
        Ok(Self { stop, ended })
    }

    /// Gives back the runs that are under way, for whoever runs exports next.
    pub async fn stop(self) {
        self.stop.cancel();
        // An error is a thread that has ended already.
        drop(self.ended.await);
    }
}

fn serve(
    config: &Config,
    secret_key: SecretKey,
    clickhouse: ClickHouse,
    stopped: &CancellationToken,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("exports")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let catalog = open::catalog(config).await?;
        let destinations = Destinations::new(
            secret_key,
            config.allow_private_destinations,
            config.export_root.clone(),
        )?;
        let notices = ExportNotices {
            catalog: catalog.clone(),
            outbox: admin::outbox(config),
        };
        let options = EngineOptions {
            runs_max: config.export_runs_max,
            ..EngineOptions::default()
        };
        let open = Arc::new(move |export: &_| destinations.open(export));
        let engine = Engine::new(catalog, clickhouse, open, Arc::new(notices), options);
        engine.run(stopped.cancelled()).await;
        Ok(())
    });
    runtime.shutdown_background();
    outcome
}
