//! The embedded ClickHouse: as our child, and as the child itself.

use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use crate::signals;
use anyhow::{Context, bail};
use metrics::{counter, describe_counter};
use millrace_embedded::{
    EXIT_HOPELESS, EngineError, EngineOptions, LibraryError, State, Status, Supervisor,
    SupervisorOptions,
};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// How long the engine may take to name its port, when it was to choose one.
const PORT_WAIT: Duration = Duration::from_secs(30);
const RESTARTS: &str = "millrace_engine_restarts_total";
/// The variable that carries the password to the child: a command line can be read by everybody.
const PASSWORD_VARIABLE: &str = "MILLRACE_CLICKHOUSE_PASSWORD";

/// Starts the engine as a supervised child and fills in where it is. `None` when a server is used
/// instead.
///
/// # Errors
/// When the engine is not installed, its port is busy, or it does not come up at all.
pub async fn start(
    config: &Config,
    credentials: &mut Credentials,
) -> anyhow::Result<Option<Supervisor>> {
    let (listen, library, memory_bytes_max, user) = match &config.engine {
        Engine::Server {
            url,
            user,
            password,
            ..
        } => {
            credentials.clickhouse_url.clone_from(url);
            credentials.clickhouse_user.clone_from(user);
            credentials.clickhouse_password.clone_from(password);
            return Ok(None);
        }
        Engine::Embedded {
            listen,
            library,
            memory_bytes_max,
            user,
            ..
        } => (*listen, library, *memory_bytes_max, user),
    };
    let library = millrace_embedded::find_library(library.as_deref())?;
    // The child would say it too, but only in the log, again and again.
    TcpListener::bind(listen).with_context(|| {
        format!("cannot listen on {listen}; give the embedded ClickHouse another address with --clickhouse-addr")
    })?;
    ensure_password(config, credentials)?;
    credentials.clickhouse_user.clone_from(user);
    let executable = std::env::current_exe().context("cannot find the program's own file")?;
    let (data_dir, password) = (
        config.data_dir.clone(),
        credentials.clickhouse_password.clone(),
    );
    let (user, parent) = (user.clone(), std::process::id());
    let supervisor = Supervisor::start(SupervisorOptions::default(), move |chosen| {
        let mut command = Command::new(&executable);
        command
            .arg("clickhouse")
            .args(["--parent", &parent.to_string()]);
        command
            .arg("--data-dir")
            .arg(&data_dir)
            .arg("--libchdb")
            .arg(&library);
        command.args(["--clickhouse-addr", &chosen.unwrap_or(listen).to_string()]);
        command.args(["--clickhouse-memory", &memory_bytes_max.to_string()]);
        command
            .args(["--clickhouse-user", &user])
            .env(PASSWORD_VARIABLE, &password);
        command
    })
    .context("cannot start the supervisor of ClickHouse")?;
    tokio::spawn(count_restarts(supervisor.status()));
    let address = if listen.port() == 0 {
        chosen_address(&supervisor).await?
    } else {
        listen
    };
    credentials.clickhouse_url = format!("http://{address}");
    Ok(Some(supervisor))
}

/// Counts how often the engine had to be started again, until the supervisor is gone.
async fn count_restarts(mut status: watch::Receiver<Status>) {
    describe_counter!(
        RESTARTS,
        "How often the embedded ClickHouse died and was started again"
    );
    loop {
        counter!(RESTARTS).absolute(status.borrow_and_update().restarts);
        if status.changed().await.is_err() {
            return;
        }
    }
}

async fn chosen_address(supervisor: &Supervisor) -> anyhow::Result<SocketAddr> {
    let mut status = supervisor.status();
    let is_settled = |status: &Status| {
        let settled = [State::Stopped, State::Failed];
        matches!(status.state, State::Up { .. }) || settled.contains(&status.state)
    };
    let settled = tokio::time::timeout(PORT_WAIT, status.wait_for(is_settled)).await;
    if let Ok(Ok(status)) = settled
        && let State::Up { address, .. } = status.state
    {
        return Ok(address);
    }
    match why_hopeless(supervisor) {
        Some(reason) => bail!(reason),
        None => bail!("the embedded ClickHouse does not come up; see the log"),
    }
}

/// Waits until it is known that the engine can never start.
pub async fn hopeless(mut status: watch::Receiver<Status>) {
    let failed = status.wait_for(|status| status.state == State::Failed);
    if failed.await.is_err() {
        // It was stopped.
        std::future::pending::<()>().await;
    }
}

/// Why the engine can never start; `None` unless that is known.
pub fn why_hopeless(supervisor: &Supervisor) -> Option<String> {
    let status = supervisor.status();
    let status = status.borrow();
    let words = status.last_words.as_deref().unwrap_or_default();
    let reason = words.strip_prefix("millrace: ").unwrap_or(words);
    (status.state == State::Failed)
        .then(|| format!("the embedded ClickHouse cannot start: {reason}"))
}

/// The status with which the supervised engine ends, by which its parent knows whether to try again.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let is_hopeless = error.is::<LibraryError>()
        || error
            .downcast_ref::<EngineError>()
            .is_some_and(EngineError::is_hopeless);
    if is_hopeless { EXIT_HOPELESS } else { 1 }
}

/// The configured password, else the one of earlier starts, else a new one.
fn ensure_password(config: &Config, credentials: &mut Credentials) -> anyhow::Result<()> {
    if let Engine::Embedded {
        password: Some(password),
        ..
    } = &config.engine
    {
        credentials.clickhouse_password.clone_from(password);
    } else if credentials.clickhouse_password.is_empty() {
        credentials.clickhouse_password = Uuid::new_v4().simple().to_string();
    }
    Ok(())
}

/// `millrace clickhouse`: the engine itself. `parent` is the process that supervises it, if any.
///
/// # Errors
/// When a server is configured instead, or the engine cannot start.
pub fn run(config: &Config, parent: Option<u32>) -> anyhow::Result<()> {
    let Engine::Embedded {
        listen,
        library,
        memory_bytes_max,
        user,
        ..
    } = &config.engine
    else {
        bail!("clickhouse_url names a server, so there is no embedded ClickHouse to run; unset it");
    };
    if let Some(parent) = parent {
        millrace_embedded::end_with_parent(parent)?;
    }
    let path = config.credentials_path();
    let mut credentials = Credentials::load(&path)?.unwrap_or_default();
    ensure_password(config, &mut credentials)?;
    let options = EngineOptions {
        library: millrace_embedded::find_library(library.as_deref())?,
        data_dir: config.data_dir.join("clickhouse"),
        listen: *listen,
        user: user.clone(),
        password: credentials.clickhouse_password.clone(),
        memory_bytes_max: *memory_bytes_max,
    };
    let announce = |address: SocketAddr| {
        if parent.is_some() {
            return millrace_embedded::announce(address);
        }
        credentials.clickhouse_url = format!("http://{address}");
        credentials.clickhouse_user.clone_from(user);
        match credentials.store(&path) {
            Ok(()) => crate::print(&format!(
                "ClickHouse answers at http://{address}, user {user}, password in {}",
                path.display()
            )),
            Err(error) => tracing::error!("{error:#}"),
        }
    };
    // A terminal's Ctrl-C reaches the whole group; a supervised engine waits for its parent's word.
    let shutdown = async move {
        if parent.is_some() {
            signals::terminate_only().await;
        } else {
            signals::Stop::listen().asked().await;
        }
    };
    Ok(millrace_embedded::run(options, announce, shutdown)?)
}
