//! Target of the load: URL, project keys and trusted certificates.

use anyhow::{Context, Result, ensure};
use clap::Args;
use millrace_load::Plan;
use millrace_load::api::{Api, Header};
use millrace_load::credentials::Credentials;
use millrace_load::keys::Keys;
use millrace_load::tls::Trust;
use std::path::PathBuf;

/// URL, project keys and trusted certificates.
#[derive(Debug, Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// The server's credentials.json, which gives URL and key.
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// URL of a server that is compatible with PostHog's, http[s]://host[:port][/path].
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Path of the API if the URL has none, such as /capture/; by default that of --api.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Form of the bodies.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Api::Batch)]
    pub api: Api,
    /// Further header of all requests, NAME: VALUE; may be given several times.
    #[arg(long, value_name = "HEADER", value_parser = Header::parse)]
    pub header: Vec<Header>,
    /// Project key. Several keys, as a list or one by one, are taken in turn by the requests.
    #[arg(long, value_name = "KEY,…", value_delimiter = ',')]
    pub key: Vec<String>,
    /// File with more keys, one per line; empty lines and # comments are skipped.
    #[arg(long, value_name = "FILE")]
    pub keys_file: Option<PathBuf>,
    /// PEM file with the certificate authorities to trust, in place of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
}

impl TargetArgs {
    /// Plan with the target and keys of the options, or those of the credentials.
    pub fn plan(&self, needs_key: bool) -> Result<Plan> {
        let credentials = self.credentials.as_deref().map(Credentials::read);
        let credentials = credentials.transpose()?;
        let url = self
            .url
            .as_ref()
            .or(credentials.as_ref().map(|c| &c.ingest_url))
            .context("--url or --credentials is missing")?;
        let mut keys = self.key.clone();
        if let Some(file) = &self.keys_file {
            keys.extend(Keys::read(file)?);
        }
        if keys.is_empty() {
            keys.extend(credentials.as_ref().map(|c| c.project_api_key.clone()));
        }
        ensure!(
            !needs_key || !keys.is_empty(),
            "--key, --keys-file or --credentials is missing"
        );
        let mut plan = Plan::new(&self.api.url(url, self.path.as_deref())?, "");
        plan.api = self.api;
        plan.headers.clone_from(&self.header);
        plan.keys = Keys::new(keys);
        plan.trust = Trust {
            ca: self.ca.clone(),
            insecure: self.insecure,
        };
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        target: TargetArgs,
    }

    fn typed(words: &[&str]) -> Result<Plan> {
        let words = ["load", "--url", "http://h"].iter().chain(words);
        Typed::parse_from(words).target.plan(true)
    }

    #[test]
    fn keys_come_from_options_lists_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys");
        std::fs::write(&file, "c\nd\n").unwrap();
        let file = file.to_str().unwrap();
        for (words, expected) in [
            (&["--key", "a"][..], &["a"][..]),
            (&["--key", "a,b"], &["a", "b"]),
            (&["--key", "a", "--key", "b,c"], &["a", "b", "c"]),
            (&["--keys-file", file], &["c", "d"]),
            (&["--key", "a", "--keys-file", file], &["a", "c", "d"]),
        ] {
            let keys = expected.iter().map(|&key| key.to_owned()).collect();
            assert_eq!(typed(words).unwrap().keys, Keys::new(keys), "{words:?}");
        }
        assert!(typed(&[]).unwrap_err().to_string().contains("--key"));
    }

    #[test]
    fn the_url_is_that_of_the_form_unless_a_path_is_given() {
        for (words, url) in [
            (&["--key", "k"][..], "http://h/batch/"),
            (&["--key", "k", "--api", "list"], "http://h/i/v0/e/"),
            (
                &["--key", "k", "--api", "event", "--path", "/e/"],
                "http://h/e/",
            ),
        ] {
            assert_eq!(typed(words).unwrap().url, url, "{words:?}");
        }
    }

    #[test]
    fn the_key_of_the_credentials_is_used_when_none_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("credentials.json");
        let credentials = "{\"ingest_url\":\"http://i\",\"clickhouse_url\":\"\",\
            \"clickhouse_user\":\"\",\"clickhouse_password\":\"\",\"project_api_key\":\"own\"}";
        std::fs::write(&file, credentials).unwrap();
        let file = file.to_str().unwrap();
        for (words, key) in [
            (&["--credentials", file][..], "own"),
            (&["--credentials", file, "--key", "a"], "a"),
        ] {
            assert_eq!(typed(words).unwrap().keys, Keys::new(vec![key.to_owned()]));
        }
    }
}
