//! Request smuggling behind haproxy and nginx, which keep connections to us and send requests of
//! many clients over one: what one client sends must never decide what another one is answered.

use super::vectors::{canary, exchange, sign, vectors};
use crate::test_env::TestEnv;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time that a test waits before it fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Proxy in front of a server, on a socket in a folder of its own; killed when dropped.
struct Proxy {
    child: Child,
    dir: TempDir,
}

impl Proxy {
    /// Starts a proxy; `None`, and a line on stderr, where the program is not installed.
    fn start(program: &str, config: impl Fn(&Path) -> String) -> Option<Self> {
        let Some(path) = found(program) else {
            eprintln!("NOT TESTED: {program} is not installed; deploy/test-setup.sh installs it");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        std::fs::write(&file, config(dir.path())).unwrap();
        let mut command = Command::new(path);
        match program {
            "nginx" => command.arg("-p").arg(dir.path()).arg("-c").arg(&file),
            _ => command.arg("-f").arg(&file),
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let proxy = Self {
            child: child.unwrap(),
            dir,
        };
        let started = Instant::now();
        while UnixStream::connect(proxy.socket()).is_err() {
            assert!(
                started.elapsed() < TEST_TIMEOUT,
                "{program} does not listen"
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Some(proxy)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn exchange(&self, bytes: &[u8]) -> String {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        exchange(stream, bytes)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Fails only when it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds a program where packages install it; users' paths often leave the second out.
fn found(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .map(|dir| Path::new(dir).join(program))
        .into_iter()
        .find(|path| path.exists())
}

fn haproxy(env: &TestEnv) -> Option<Proxy> {
    let server = env.addr;
    Proxy::start("haproxy", |dir| {
        format!(
            "global\n  maxconn 100\n\
             defaults\n  mode http\n  timeout client 2s\n  timeout server 5s\n  timeout connect 5s\n  \
             http-reuse always\n\
             frontend f\n  bind unix@{}/socket\n  default_backend b\n\
             backend b\n  server s {server} pool-purge-delay 60s\n",
            dir.display()
        )
    })
}

fn nginx(env: &TestEnv) -> Option<Proxy> {
    let server = env.addr;
    Proxy::start("nginx", |dir| {
        let dir = dir.display();
        format!(
            "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;\n\
             events {{ worker_connections 100; }}\n\
             http {{\n  access_log off; client_header_timeout 2s; client_body_timeout 2s;\n  \
             client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;\n  \
             uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; underscores_in_headers on;\n  \
             upstream u {{ server {server}; keepalive 8; }}\n  \
             server {{ listen unix:{dir}/socket; location / {{ proxy_pass http://u; \
             proxy_http_version 1.1; proxy_set_header Connection \"\"; \
             proxy_request_buffering off; }} }}\n}}\n"
        )
    })
}

/// Sends each vector and then requests of other clients: on the connections that the proxy has
/// kept, they must get their own responses.
fn check_no_client_gets_the_response_of_another(proxy: &Proxy) {
    for vector in vectors() {
        proxy.exchange(&[vector.bytes, canary("canary")].concat());
        for client in ["first", "second", "third"] {
            let answer = proxy.exchange(&canary(client));
            assert!(
                answer.contains(&sign(client)),
                "{}: {answer:?}",
                vector.name
            );
        }
    }
}

fn test_env() -> TestEnv {
    TestEnv::with(|options| {
        options.server.workers = 1;
        options.server.limits.body_stall_timeout = Duration::from_millis(300);
    })
}

#[test]
fn behind_haproxy_no_client_gets_the_response_of_another() {
    let env = test_env();
    if let Some(proxy) = haproxy(&env) {
        check_no_client_gets_the_response_of_another(&proxy);
    }
}

#[test]
fn behind_nginx_no_client_gets_the_response_of_another() {
    let env = test_env();
    if let Some(proxy) = nginx(&env) {
        check_no_client_gets_the_response_of_another(&proxy);
    }
}
