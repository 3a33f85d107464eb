//! Embedded ClickHouse: the supervised child process.

use crate::clickhouse_users;
use crate::config::{Config, Engine, is_long_password};
use crate::credentials::Credentials;
use crate::scraped::note_engine;
use anyhow::{Context, bail};
use metrics::{counter, describe_counter};
use millrace_embedded::{
    EXIT_PERMANENT_FAILURE, EngineError, LibraryError, ReservedAddress, State, Status, Supervisor,
    SupervisorOptions,
};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// Timeout for the engine to announce the port that it chose.
const PORT_TIMEOUT: Duration = Duration::from_secs(30);
const RESTARTS: &str = "millrace_engine_restarts_total";
/// Variable that carries the password to the child: a command line can be read by everybody.
const PASSWORD_VARIABLE: &str = "MILLRACE_CLICKHOUSE_PASSWORD";
/// Variable with the kind of terminal, which the engine's own session has.
const TERMINAL_VARIABLE: &str = "TERM";
/// Kind without any control sequences.
const TERMINAL: &str = "dumb";
/// Variables of this process that the child inherits.
const KEPT_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "RUST_BACKTRACE"];

/// Starts the engine as a supervised child and fills in its address. `None` when a server is used
/// instead.
///
/// # Errors
/// When the engine is not installed, its port is busy, or it does not come up at all.
pub async fn start(
    config: &Config,
    credentials: &mut Credentials,
) -> anyhow::Result<Option<Supervisor>> {
    if let Engine::Embedded { shards, .. } = &config.engine
        && !shards.is_empty()
    {
        bail!(
            "clickhouse_shards is for `millrace clickhouse` by itself; run each shard so, and give \
             the nodes clickhouse_url, clickhouse_cluster and clickhouse_replication"
        );
    }
    let (listen, library, user, direct) = match &config.engine {
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
            user,
            direct,
            ..
        } => (*listen, library, user, direct),
    };
    let library = millrace_embedded::find_library(library.as_deref())?;
    // The child would report it too, but only in the log and repeatedly.
    TcpListener::bind(listen).with_context(|| {
        format!("cannot listen on {listen}; give the embedded ClickHouse another address with --clickhouse-addr")
    })?;
    ensure_password(config, credentials);
    credentials.clickhouse_user.clone_from(user);
    clickhouse_users::ensure(config, credentials)?;
    let held = ReservedAddress::of_loopback(0).context("cannot take a port for ClickHouse")?;
    direct.set(held.address());
    let process = EngineProcess {
        executable: std::env::current_exe().context("cannot find the program's own file")?,
        config: config.clone(),
        library,
        password: credentials.clickhouse_password.clone(),
        direct: held,
    };
    let supervisor = Supervisor::start(SupervisorOptions::default(), move |chosen| {
        process.command(chosen.unwrap_or(listen))
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

/// Parameters of the engine's process.
struct EngineProcess {
    executable: PathBuf,
    config: Config,
    library: PathBuf,
    password: String,
    /// Address of the engine behind its gate, held over its restarts.
    direct: ReservedAddress,
}

impl EngineProcess {
    /// Builds the command line. Of our environment, which has keys and passwords, the child
    /// inherits only what its loader needs; it reads no settings file, as all settings are
    /// arguments.
    fn command(&self, listen: SocketAddr) -> Command {
        let mut command = Command::new(&self.executable);
        command.env_clear().env(PASSWORD_VARIABLE, &self.password);
        command.env(TERMINAL_VARIABLE, TERMINAL);
        let kept = KEPT_VARIABLES.map(|name| (name, std::env::var_os(name)));
        for (name, value) in kept
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
        {
            command.env(name, value);
        }
        command
            .arg("clickhouse")
            .args(["--parent", &std::process::id().to_string()])
            .args(["--direct-port", &self.direct.address().port().to_string()]);
        command.args([
            "--config",
            "/dev/null",
            "--log-level",
            &self.config.log_level,
        ]);
        command.arg("--data-dir").arg(&self.config.data_dir);
        command.arg("--libchdb").arg(&self.library);
        command.args(["--clickhouse-addr", &listen.to_string()]);
        if let Engine::Embedded {
            native_port,
            networks,
            memory_bytes_max,
            user,
            backup_dir,
            sources,
            ..
        } = &self.config.engine
        {
            if let Some(port) = native_port {
                command.args(["--clickhouse-native-port", &port.to_string()]);
            }
            for network in networks {
                command.args(["--clickhouse-networks", &network.to_string()]);
            }
            command.args(["--clickhouse-memory", &memory_bytes_max.to_string()]);
            command.args(["--clickhouse-user", user]);
            command.arg("--clickhouse-backup-dir").arg(backup_dir);
            for source in sources {
                command.args(["--clickhouse-sources", &source.to_string()]);
            }
        }
        command
    }
}

/// Counts restarts of the engine and notes its process for the page of metrics, until the
/// supervisor is gone.
async fn count_restarts(mut status: watch::Receiver<Status>) {
    describe_counter!(
        RESTARTS,
        "Restarts of the embedded ClickHouse after it died"
    );
    loop {
        let (restarts, pid) = {
            let status = status.borrow_and_update();
            (status.restarts, status.pid)
        };
        counter!(RESTARTS).absolute(restarts);
        note_engine(pid);
        if status.changed().await.is_err() {
            return note_engine(None);
        }
    }
}

async fn chosen_address(supervisor: &Supervisor) -> anyhow::Result<SocketAddr> {
    let mut status = supervisor.status();
    let is_settled = |status: &Status| {
        let settled = [State::Stopped, State::Failed];
        matches!(status.state, State::Up { .. }) || settled.contains(&status.state)
    };
    let settled = tokio::time::timeout(PORT_TIMEOUT, status.wait_for(is_settled)).await;
    if let Ok(Ok(status)) = settled
        && let State::Up { address, .. } = status.state
    {
        return Ok(address);
    }
    match permanent_failure_reason(supervisor) {
        Some(reason) => bail!(reason),
        None => bail!("the embedded ClickHouse does not come up; see the log"),
    }
}

/// Waits until the engine has failed permanently.
pub async fn permanent_failure(mut status: watch::Receiver<Status>) {
    let failed = status.wait_for(|status| status.state == State::Failed);
    if failed.await.is_err() {
        // The engine was stopped.
        std::future::pending::<()>().await;
    }
}

/// Reason why the engine can never start; `None` if it has not failed permanently.
pub fn permanent_failure_reason(supervisor: &Supervisor) -> Option<String> {
    let status = supervisor.status();
    let status = status.borrow();
    let words = status.last_stderr_line.as_deref().unwrap_or_default();
    let reason = words.strip_prefix("millrace: ").unwrap_or(words);
    (status.state == State::Failed)
        .then(|| format!("the embedded ClickHouse cannot start: {reason}"))
}

/// Exit code of the supervised engine; it tells the parent if a restart is useless.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let is_permanent = error.is::<LibraryError>()
        || error
            .downcast_ref::<EngineError>()
            .is_some_and(EngineError::is_permanent);
    if is_permanent {
        EXIT_PERMANENT_FAILURE
    } else {
        1
    }
}

/// Sets the password: the configured one, else the one of earlier starts, else a new one. One that
/// was chosen before it had to be long is replaced.
pub fn ensure_password(config: &Config, credentials: &mut Credentials) {
    if let Engine::Embedded {
        password: Some(password),
        ..
    } = &config.engine
    {
        credentials.clickhouse_password.clone_from(password);
    } else if !is_long_password(&credentials.clickhouse_password) {
        credentials.clickhouse_password = Uuid::new_v4().simple().to_string();
    }
}
