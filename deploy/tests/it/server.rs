//! Fixture: a running `millrace` of a test's own.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout of every wait.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Table that is created last; operator's commands read it, too.
pub const LAST_TABLE: &str = "project_stats";

/// Command for the binary under test.
pub fn millrace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MILLRACE_")) {
        command.env_remove(name);
    }
    command
}

/// Command for a long-running mode on ports of its own.
pub fn on_own_ports(mode: &str, data_dir: &Path) -> Command {
    let any = "127.0.0.1:0";
    on_addresses(mode, data_dir, any, any)
}

/// Command for a long-running mode with these addresses for events and health.
pub fn on_addresses(mode: &str, data_dir: &Path, ingest: &str, health: &str) -> Command {
    let mut command = millrace();
    command.arg(mode).arg("--data-dir").arg(data_dir);
    command.args(["--ingest-addr", ingest, "--health-addr", health]);
    for flag in ["--admin-addr", "--clickhouse-addr"] {
        command.args([flag, "127.0.0.1:0"]);
    }
    command
}

/// Address that nobody listens on now.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Runs a command of the binary to its end.
pub fn run(args: &[&str]) -> Output {
    millrace().args(args).output().unwrap()
}

/// `millrace serve`, or a part of it, on a data folder, on ports of its own; killed with all its
/// children when dropped.
pub struct Server {
    child: Child,
    data_dir: PathBuf,
    banner: String,
}

impl Server {
    /// Starts a server and waits for its banner.
    pub fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// Starts a server with more arguments.
    pub fn start_with(data_dir: &Path, args: &[&str]) -> Self {
        Self::start_mode("serve", data_dir, args)
    }

    /// Starts another mode: `ingest` or `admin`.
    pub fn start_mode(mode: &str, data_dir: &Path, args: &[&str]) -> Self {
        Self::start_command(on_own_ports(mode, data_dir).args(args), data_dir)
    }

    /// Starts any command that is a server on this folder.
    pub fn start_command(command: &mut Command, data_dir: &Path) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut banner = String::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            banner += &line;
            banner.push('\n');
            if line.starts_with("Press Ctrl-C") {
                // Keep the pipe open, so that a later write does not end the server.
                std::thread::spawn(move || lines.for_each(drop));
                return Self {
                    child,
                    data_dir: data_dir.to_owned(),
                    banner,
                };
            }
        }
        let status = child.wait().unwrap();
        panic!("the server ended with {status} before it was up: {banner}");
    }

    /// Starts a command that is a server on this folder and ends by itself, perhaps before its
    /// banner: it is waited for by [`Self::wait`].
    pub fn start_to_end(command: &mut Command, data_dir: &Path) -> Self {
        let command = command.stdout(Stdio::null()).process_group(0);
        Self {
            child: command.spawn().unwrap(),
            data_dir: data_dir.to_owned(),
            banner: String::new(),
        }
    }

    /// Banner that the server printed.
    pub fn banner(&self) -> &str {
        &self.banner
    }

    /// Value of `credentials.json`.
    pub fn credential(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.credentials_path()).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        json[name]
            .as_str()
            .map_or_else(|| json[name].to_string(), str::to_owned)
    }

    /// Arguments with which another process uses this server's ClickHouse.
    pub fn clickhouse_args(&self) -> Vec<String> {
        let arg = |name: &str| {
            let setting = format!("--{}", name.replace('_', "-"));
            [setting, self.credential(name)]
        };
        let names = ["clickhouse_url", "clickhouse_user", "clickhouse_password"];
        names.into_iter().flat_map(arg).collect()
    }

    pub fn credentials_path(&self) -> PathBuf {
        self.data_dir.join("credentials.json")
    }

    /// Id of the main process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Posts JSON to a path of the ingest listener: status and body.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        post(
            &format!("{}{path}", self.credential("ingest_url")),
            &body.to_string(),
        )
    }

    /// Posts events with the project's key and expects success.
    pub fn capture(&self, events: &Value) {
        let key = self.credential("project_api_key");
        let body = serde_json::json!({"api_key": key, "batch": events});
        let (status, answer) = self.post("/batch/", &body);
        assert_eq!(status, 200, "{answer}");
    }

    /// Value of a metric, named with its labels; `None` if it is not reported.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let url = format!("{}/metrics", self.credential("health_url"));
        let (_, metrics) = get(&url, &[]);
        let values = metrics.lines().filter_map(|line| line.rsplit_once(' '));
        let mut found = values.filter(|(told, _)| *told == name);
        found.next().map(|(_, value)| value.parse().unwrap())
    }

    /// Runs a query, once ClickHouse is up.
    pub fn query(&self, sql: &str) -> String {
        let url = self.credential("clickhouse_url");
        let (user, password) = (
            self.credential("clickhouse_user"),
            self.credential("clickhouse_password"),
        );
        eventually(&format!("an answer to {sql}"), || {
            let request = ureq::post(&url)
                .header("X-ClickHouse-User", &user)
                .header("X-ClickHouse-Key", &password)
                .send(sql);
            request
                .ok()?
                .body_mut()
                .read_to_string()
                .ok()
                .map(|text| text.trim_end().to_owned())
        })
    }

    /// Waits until a query returns this text.
    pub fn wait_for(&self, sql: &str, expected: &str) {
        let mut last = String::new();
        let started = Instant::now();
        while started.elapsed() < DEADLINE {
            last = self.query(sql);
            if last == expected {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{sql} answers {last:?}, not {expected:?}, after {DEADLINE:?}");
    }

    /// Waits until all tables exist. They are created one after the other, and events are stored as
    /// soon as their table exists.
    pub fn wait_for_tables(&self) {
        self.wait_for(&format!("EXISTS millrace.{LAST_TABLE}"), "1");
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.wait()
    }

    /// Waits until the server ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the server's end", || self.child.try_wait().unwrap())
    }

    fn kill(&mut self) {
        // It fails only when all of them have ended.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Approves all imports of the first project of a catalog.
pub fn allow_imports(place: &[&str]) {
    let approve = ["migrations", "approve", "--project-id", "1"];
    let total = ["--total-events", "1000000000000"];
    let rate = ["--events-per-minute", "1000000000"];
    let output = run(&[&approve[..], &total, &rate, place].concat());
    assert!(output.status.success(), "{output:?}");
}

/// Calls the API with the key of the first start; returns status and body.
pub fn ask(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{}{path}", server.credential("admin_url")))
        .header("content-type", "application/json")
        .header(
            "authorization",
            format!("Bearer {}", server.credential("personal_api_key")),
        )
        .body(body.to_string())
        .unwrap();
    let mut answer = agent.run(request).unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (
        answer.status().as_u16(),
        serde_json::from_str(&text).unwrap_or(Value::Null),
    )
}

/// Posts a JSON text; returns status and JSON response.
pub fn post(url: &str, body: &str) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let mut answer = agent
        .post(url)
        .header("Content-Type", "application/json")
        .send(body)
        .unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (
        answer.status().as_u16(),
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

/// Warnings and errors of a log.
pub fn warnings(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains(" INFO "), "{said}");
    let is_wrong = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    said.lines().filter(is_wrong).collect()
}

/// Gets a URL; returns status and text.
pub fn get(url: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let request = headers
        .iter()
        .fold(agent.get(url), |request, (name, value)| {
            request.header(*name, *value)
        });
    let mut answer = request.call().unwrap();
    (
        answer.status().as_u16(),
        answer.body_mut().read_to_string().unwrap(),
    )
}

/// Error with which a server ended, of its error output. Lines of log stand before it, and behind
/// it those of threads that had not ended yet.
pub fn error_line(output: &str) -> &str {
    let mut lines = output.lines().rev();
    lines
        .find(|line| line.starts_with("millrace: "))
        .unwrap_or_default()
}

/// Repeats an attempt until it returns a value; fails after [`DEADLINE`].
pub fn eventually<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    eventually_within(DEADLINE, what, attempt)
}

/// Repeats an attempt until it returns a value; fails after a time of its own.
pub fn eventually_within<T>(
    deadline: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(
            started.elapsed() < deadline,
            "{what} did not come within {deadline:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
