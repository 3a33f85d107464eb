//! `millrace tail`: shows the events of a project as they arrive.
//!
//! | Module | Does |
//! |---|---|
//! | `stream` | asks the API for its live stream, again when that breaks off |
//! | `server_sent` | server-sent events out of bytes |
//! | `show` | lines for people, and for programs |

mod server_sent;
mod show;
mod stream;

use crate::colors;
use crate::config::Config;
use crate::connect;
use crate::credentials::Credentials;
use crate::numbers::project;
use crate::own_client;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use server_sent::ServerSent;
use show::Show;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use stream::{LiveStream, StreamEnd};
use url::Url;

/// Pause before the API is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `millrace tail`.
#[derive(Args, Clone, Debug)]
pub struct Tail {
    /// Project whose events are shown; by default the first one of your first organization
    #[arg(long, value_name = "ID", value_parser = project::<i64>)]
    project: Option<i64>,
    /// Only events of this name
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only events of this distinct id
    #[arg(long, value_name = "ID")]
    distinct_id: Option<String>,
    /// Only events with this fate
    #[arg(long, value_enum)]
    fate: Option<FateFilter>,
    /// Only events with this code of a rejection or a warning
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only events of this SDK, as in web
    #[arg(long, value_name = "LIB")]
    lib: Option<String>,
    /// Only events with this property; may be given five times
    #[arg(long, value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// Print a line of JSON for each event, with all that is known of it
    ///
    /// Lines with stored have the ids of events that are in ClickHouse now, lines with rate the
    /// numbers of the last second.
    #[arg(long)]
    json: bool,
    /// Use of colors
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    /// URL of the organization API; by default that of the server of the data folder
    #[arg(long, value_name = "URL", requires = "api_key_file")]
    api_url: Option<String>,
    /// File with a personal key that has the scope event:read; by default the first key of the
    /// server of the data folder
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

/// Fate of the events that are shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FateFilter {
    /// Accepted events
    Logged,
    /// Accepted events, once they are in ClickHouse
    Stored,
    /// Rejected events
    Rejected,
}

/// Use of colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    /// On terminals, unless NO_COLOR or CLICOLOR says otherwise
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl FateFilter {
    const fn name(self) -> &'static str {
        match self {
            Self::Logged => "logged",
            Self::Stored => "stored",
            Self::Rejected => "rejected",
        }
    }
}

/// Runs the command, until nobody reads its output.
///
/// # Errors
/// When the API refuses the stream, or cannot be reached at first.
pub fn run(config: &Config, tail: &Tail) -> anyhow::Result<()> {
    let has_colors = match tail.color {
        ColorChoice::Auto => colors::are_wanted(std::io::stdout().is_terminal()),
        ColorChoice::Always => true,
        ColorChoice::Never => false,
    };
    let show = Show::new(tail.json, has_colors);
    let (url, key) = place(config, tail)?;
    let mut stream = LiveStream::new(own_client::client(config)?, url, key);
    connect::block_on(async {
        loop {
            match stream
                .read(&mut |message: &ServerSent| show.message(message))
                .await
            {
                StreamEnd::NobodyReads => return Ok(()),
                StreamEnd::Refused(error) => return Err(error),
                StreamEnd::Broken(error) if !stream.has_begun() => return Err(error),
                StreamEnd::Broken(error) => {
                    tracing::debug!(error = format!("{error:#}"), "the stream broke off");
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    })
}

/// URL of the stream, and the key that opens it.
fn place(config: &Config, tail: &Tail) -> anyhow::Result<(Url, String)> {
    let credentials = match (&tail.api_url, &tail.api_key_file) {
        (Some(_), Some(_)) => Credentials::default(),
        _ => Credentials::load(&config.credentials_path())?.with_context(|| {
            let path = config.credentials_path();
            format!(
                "there is no {}; start the server first, name its folder with --data-dir, or give --api-url and \
                 --api-key-file",
                path.display()
            )
        })?,
    };
    let base = tail.api_url.as_ref().unwrap_or(&credentials.admin_url);
    let key = match &tail.api_key_file {
        Some(file) => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?,
        None => credentials.personal_api_key.clone(),
    };
    if base.is_empty() || key.trim().is_empty() {
        bail!(
            "the server of the data folder has no API or no key; give --api-url and --api-key-file"
        );
    }
    Ok((stream_url(base, tail)?, key.trim().to_owned()))
}

/// URL of the stream with its filters.
fn stream_url(base: &str, tail: &Tail) -> anyhow::Result<Url> {
    let project = tail.project.map(|id| id.to_string());
    let project = project.as_deref().unwrap_or("@current");
    let base = base.trim_end_matches('/');
    let url = format!("{base}/api/projects/{project}/live/");
    let mut url = Url::parse(&url).with_context(|| format!("{base:?} is no URL"))?;
    let filters = [
        ("event", tail.event.as_deref()),
        ("distinct_id", tail.distinct_id.as_deref()),
        ("fate", tail.fate.map(FateFilter::name)),
        ("code", tail.code.as_deref()),
        ("$lib", tail.lib.as_deref()),
    ];
    let given = filters
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let properties = tail.property.iter().map(|pair| ("property", pair.as_str()));
    let pairs: Vec<_> = given.chain(properties).collect();
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        tail: Tail,
    }

    #[test]
    fn the_url_has_the_project_and_the_filters() {
        let table: [(&[&str], &str); 4] = [
            (&[], "@current/live/"),
            (&["--project", "7"], "7/live/"),
            (
                &["--fate", "rejected", "--lib", "web"],
                "@current/live/?fate=rejected&%24lib=web",
            ),
            (
                &[
                    "--property",
                    "a=b c",
                    "--property",
                    "n=7",
                    "--event",
                    "$pageview",
                ],
                "@current/live/?event=%24pageview&property=a%3Db+c&property=n%3D7",
            ),
        ];
        for (arguments, expected) in table {
            let arguments = ["tail"].iter().chain(arguments);
            let command = Command::parse_from(arguments);
            for base in ["http://h:1", "http://h:1/"] {
                let url = stream_url(base, &command.tail).unwrap();
                assert_eq!(url.as_str(), format!("http://h:1/api/projects/{expected}"));
            }
        }
    }
}
