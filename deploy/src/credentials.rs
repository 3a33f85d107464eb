//! `credentials.json`: addresses and first keys, for local tools.
//!
//! It is written anew at every start, once the real ports are known, atomically and readable by its
//! owner only. It is the only place that keeps the personal key in clear text; deleting the file
//! loses that key.

use crate::data_dir::{self, is_disk_full};
use anyhow::Context;
use millrace_embedded::READER;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Content of the file. Fields are empty when the process does not run that part.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Credentials {
    /// URL to post events to.
    pub ingest_url: String,
    /// URL of the organization API.
    pub admin_url: String,
    /// URL of health checks and metrics.
    pub health_url: String,
    /// URL of ClickHouse's HTTP interface.
    pub clickhouse_url: String,
    /// User of ClickHouse that the server itself is.
    pub clickhouse_user: String,
    /// Password of that user.
    pub clickhouse_password: String,
    /// Password of the user `reader`, who reads the rows of all projects; empty when there is none.
    pub clickhouse_reader_password: String,
    /// Password of the user `admin`, for operators; empty when there is none.
    pub clickhouse_admin_password: String,
    /// Id of the first organization.
    pub organization_id: String,
    /// Id of the first project.
    pub team_id: i64,
    /// Key of that project.
    pub project_api_key: String,
    /// Personal key of the owner; empty when this file was deleted after the first start.
    pub personal_api_key: String,
}

impl Credentials {
    /// Reads the file; `None` when there is none.
    ///
    /// # Errors
    /// When the file exists and cannot be read or parsed.
    pub fn load(path: &Path) -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let credentials = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is not a credentials file; move it away and start again",
                path.display()
            )
        })?;
        Ok(Some(credentials))
    }

    /// Leaves the addresses out: those of another server.
    #[must_use]
    pub fn without_addresses(self) -> Self {
        Self {
            ingest_url: String::new(),
            admin_url: String::new(),
            health_url: String::new(),
            clickhouse_url: String::new(),
            ..self
        }
    }

    /// Writes the file atomically, readable by its owner only.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        match data_dir::replace(path, text.as_bytes()) {
            // Only shipping frees space, so a full disk must not prevent a start. The old file has
            // the same keys; only its addresses may be outdated.
            Err(error) if is_disk_full(&error) && path.exists() => {
                tracing::warn!(
                    "{} has old addresses, as it cannot be rewritten: {error}",
                    path.display()
                );
                Ok(())
            }
            other => other.with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// Returns true if there is no such file, also where the folder is a file.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Banner that is printed after a start: addresses, keys, and a command to paste.
pub struct Banner<'a> {
    /// Addresses and keys.
    pub credentials: &'a Credentials,
    /// Path of `credentials.json`.
    pub path: &'a Path,
    /// True if the personal key itself is printed, and not only its place: output that does not go
    /// to a terminal is kept, by a journal or for a container, and read by others.
    pub shows_personal_key: bool,
    /// Link that signs the owner in, once; `None`: another command makes one.
    pub sign_in_link: Option<&'a str>,
    /// True if ClickHouse is the embedded one, whose password was generated here.
    pub is_embedded: bool,
    /// Reason why ClickHouse cannot be used, and advice; `None` if it can.
    pub clickhouse_problem: Option<&'a str>,
}

impl Banner<'_> {
    /// User of ClickHouse to query as.
    fn user(&self) -> &str {
        if self.is_embedded && !self.credentials.clickhouse_reader_password.is_empty() {
            READER
        } else {
            &self.credentials.clickhouse_user
        }
    }

    /// Describes the password of ClickHouse's user.
    fn password(&self) -> String {
        if self.is_embedded {
            format!("password in {}", self.path.display())
        } else if self.credentials.clickhouse_password.is_empty() {
            "no password".to_owned()
        } else {
            "password as set in clickhouse_password".to_owned()
        }
    }

    /// The personal key, or its place.
    fn personal_key(&self) -> String {
        let c = self.credentials;
        if c.personal_api_key.is_empty() {
            "not kept; `millrace keys create --user EMAIL` creates another".to_owned()
        } else if self.shows_personal_key {
            format!(
                "{} (shown once, kept in {})",
                c.personal_api_key,
                self.path.display()
            )
        } else {
            format!("in {}", self.path.display())
        }
    }
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = self.credentials;
        writeln!(f, "\nMillrace {} is running.\n", env!("CARGO_PKG_VERSION"))?;
        let personal = self.personal_key();
        let has_api = !c.admin_url.is_empty();
        // First the page that leads to everything else.
        let lines = [
            ("Console", format!("{}/", c.admin_url), has_api),
            (
                "Admin API",
                format!("{}/api/docs/", c.admin_url),
                !c.admin_url.is_empty(),
            ),
            (
                "Post events to",
                format!("{}/batch/", c.ingest_url),
                !c.ingest_url.is_empty(),
            ),
            (
                "Project key",
                c.project_api_key.clone(),
                !c.project_api_key.is_empty(),
            ),
            (
                "Sign in",
                format!(
                    "{} (works once, for 15 minutes)",
                    self.sign_in_link.unwrap_or_default()
                ),
                self.sign_in_link.is_some(),
            ),
            ("Personal key", personal, has_api),
            (
                "ClickHouse",
                format!(
                    "{} (user {}, {})",
                    c.clickhouse_url,
                    self.user(),
                    self.password()
                ),
                !c.clickhouse_url.is_empty(),
            ),
            (
                "Health, metrics",
                format!("{0}/_health/ready, {0}/metrics", c.health_url),
                true,
            ),
        ];
        for (name, value, _) in lines.iter().filter(|(_, _, shown)| *shown) {
            writeln!(f, "  {name:<16} {value}")?;
        }
        if let Some(problem) = self.clickhouse_problem {
            writeln!(f, "\nBut ClickHouse cannot be used: {problem}.")?;
            if !c.ingest_url.is_empty() {
                writeln!(
                    f,
                    "Events are accepted anyway, and wait in the log until ClickHouse can be used."
                )?;
            }
        }
        if !c.ingest_url.is_empty() {
            writeln!(f, "\nSend a first event:\n")?;
            writeln!(f, "  {}", curl_line(c))?;
        }
        writeln!(f, "\nPress Ctrl-C to stop.")
    }
}

fn curl_line(credentials: &Credentials) -> String {
    format!(
        r#"curl {}/batch/ -H 'Content-Type: application/json' -d '{{"api_key":"{}","batch":[{{"event":"hello","distinct_id":"me"}}]}}'"#,
        credentials.ingest_url, credentials.project_api_key
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_personal_key_is_printed_to_a_terminal_only() {
        let path = Path::new("data/credentials.json");
        let table = [
            (
                "phx_secret",
                true,
                "phx_secret (shown once, kept in data/credentials.json)",
            ),
            ("phx_secret", false, "in data/credentials.json"),
            (
                "",
                true,
                "not kept; `millrace keys create --user EMAIL` creates another",
            ),
            (
                "",
                false,
                "not kept; `millrace keys create --user EMAIL` creates another",
            ),
        ];
        for (key, shows_personal_key, expected) in table {
            let credentials = Credentials {
                admin_url: "http://127.0.0.1:8010".to_owned(),
                personal_api_key: key.to_owned(),
                ..Credentials::default()
            };
            let banner = Banner {
                credentials: &credentials,
                path,
                shows_personal_key,
                sign_in_link: None,
                is_embedded: true,
                clickhouse_problem: None,
            };
            assert_eq!(line_of(&banner, "Personal key"), expected);
        }
    }

    fn line_of(banner: &Banner<'_>, name: &str) -> String {
        let text = banner.to_string();
        let mut lines = text.lines();
        let found = lines.find_map(|line| line.trim().strip_prefix(name));
        found.unwrap().trim().to_owned()
    }

    #[test]
    fn the_banner_names_the_place_of_the_password_and_the_api_docs() {
        let table = [
            (true, "", "me, password in data/credentials.json"),
            (true, "made", "reader, password in data/credentials.json"),
            (false, "", "me, password as set in clickhouse_password"),
            (false, "made", "me, password as set in clickhouse_password"),
        ];
        for (is_embedded, reader, expected) in table {
            let credentials = Credentials {
                admin_url: "http://127.0.0.1:8010".to_owned(),
                clickhouse_url: "http://db:8123".to_owned(),
                clickhouse_user: "me".to_owned(),
                clickhouse_password: "given".to_owned(),
                clickhouse_reader_password: reader.to_owned(),
                ..Credentials::default()
            };
            let banner = Banner {
                credentials: &credentials,
                path: Path::new("data/credentials.json"),
                shows_personal_key: false,
                sign_in_link: Some("http://127.0.0.1:8010/sign-in#t"),
                is_embedded,
                clickhouse_problem: None,
            };
            let expected = format!("http://db:8123 (user {expected})");
            assert_eq!(line_of(&banner, "ClickHouse"), expected);
            let docs = "http://127.0.0.1:8010/api/docs/";
            assert_eq!(line_of(&banner, "Admin API"), docs);
            let text = banner.to_string();
            let mut lines = text.lines().map(str::trim);
            let first = lines.find(|line| line.contains("http://"));
            assert!(first.is_some_and(|line| line.starts_with("Console")));
            assert_eq!(line_of(&banner, "Console"), "http://127.0.0.1:8010/");
            let link = "http://127.0.0.1:8010/sign-in#t (works once, for 15 minutes)";
            assert_eq!(line_of(&banner, "Sign in"), link);
        }
    }
}
