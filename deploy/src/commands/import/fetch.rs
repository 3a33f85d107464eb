//! `millrace import fetch`: downloads exports into the staging folder.

use super::options::{Common, SINGLE_RUN_OPTIONS};
use crate::commands::Invocation;
use crate::connect;
use crate::numbers::{count, days, project, seconds};
use crate::output;
use anyhow::bail;
use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use millrace_import::clickhouse::ClickHouse;
use millrace_import::count::counted;
use millrace_import::fetch::{FetchSummary, Objects, TableExport, TableSettings, run as fetch};
use millrace_import::progress::ProgressReporter;
use millrace_import::send::client;
use millrace_import::stats::StageStats;
use millrace_rows::shown;
use millrace_sources::{
    AmplitudeExport, AmplitudeSettings, Export, MixpanelCredentials, MixpanelExport,
    MixpanelSettings, Transfer,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Most names of skipped objects in an error message.
const NAMED_MAX: usize = 10;

/// Source to fetch from.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Fetch Mixpanel's raw export, one file per day
    #[command(
        after_help = "The export API allows 60 requests an hour; a year in days takes six hours, in --days-per-part 7 one."
    )]
    Mixpanel(MixpanelArguments),
    /// Fetch Amplitude's export, one file per hour
    Amplitude(AmplitudeArguments),
    /// Fetch all objects below a prefix of an object store
    #[command(
        after_help = "Credentials and endpoints are taken from the environment, under the names that the stores' \
        own tools use: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT; \
        GOOGLE_SERVICE_ACCOUNT; AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY."
    )]
    Objects(ObjectsArguments),
    /// Fetch the events table of another Millrace, or of PostHog, over ClickHouse's HTTP interface
    Clickhouse(TableArguments),
}

/// Arguments of `fetch mixpanel`.
#[derive(Args, Clone, Debug)]
pub struct MixpanelArguments {
    #[command(flatten)]
    options: FetchOptions,
    #[command(flatten)]
    range: DayRange,
    /// URL of the service: https://data.mixpanel.com, https://data-eu.mixpanel.com or
    /// https://data-in.mixpanel.com
    #[arg(long, value_name = "URL", default_value = MixpanelExport::URL_US)]
    from_url: String,
    /// Name of a service account; without it, the secret is the project's
    #[arg(long, value_name = "NAME", requires = "project_id")]
    service_account: Option<String>,
    /// Id of the project to read
    #[arg(long, value_name = "N", value_parser = project::<u64>)]
    project_id: Option<u64>,
    /// Secret of the service account or the project; better given as MIXPANEL_SECRET
    #[arg(
        long,
        value_name = "SECRET",
        env = "MIXPANEL_SECRET",
        hide_env_values = true
    )]
    secret: String,
    /// Number of days per file
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = days::<u32>)]
    days_per_part: u32,
}

/// Arguments of `fetch amplitude`.
#[derive(Args, Clone, Debug)]
pub struct AmplitudeArguments {
    #[command(flatten)]
    options: FetchOptions,
    #[command(flatten)]
    range: DayRange,
    /// URL of the service: https://amplitude.com or https://analytics.eu.amplitude.com
    #[arg(long, value_name = "URL", default_value = AmplitudeExport::URL_US)]
    from_url: String,
    /// API key of the project
    #[arg(long, value_name = "KEY", env = "AMPLITUDE_API_KEY")]
    api_key: String,
    /// Secret key of the project; better given as AMPLITUDE_SECRET_KEY
    #[arg(
        long,
        value_name = "SECRET",
        env = "AMPLITUDE_SECRET_KEY",
        hide_env_values = true
    )]
    api_secret: String,
    /// Number of hours per file
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>)]
    hours_per_part: u32,
}

/// Options of every source.
#[derive(Args, Clone, Debug)]
pub struct FetchOptions {
    #[command(flatten)]
    common: Common,
    /// Seconds of silence in the middle of a part after which the request is repeated
    #[arg(
        long,
        value_parser = seconds::<u64>,
        value_name = "SECONDS",
        default_value_t = Transfer::SILENCE_TIMEOUT.as_secs()
    )]
    silence: u64,
}

/// Range of days.
#[derive(Args, Clone, Debug)]
pub struct DayRange {
    /// First day, as in 2024-01-31
    #[arg(long, value_name = "DAY")]
    from: String,
    /// Last day, included
    #[arg(long, value_name = "DAY")]
    until: String,
}

impl MixpanelArguments {
    fn export(&self) -> anyhow::Result<MixpanelExport> {
        let secret = self.secret.clone();
        let credentials = match (&self.service_account, self.project_id) {
            (Some(username), Some(project_id)) => MixpanelCredentials::ServiceAccount {
                username: username.clone(),
                secret,
                project_id,
            },
            _ => MixpanelCredentials::ProjectSecret(secret),
        };
        let export = MixpanelExport::new(MixpanelSettings {
            url: self.from_url.clone(),
            credentials,
            from: self.range.from.clone(),
            until: self.range.until.clone(),
            days_per_part: self.days_per_part,
            rate_limit: MixpanelExport::RATE_LIMIT,
        })?;
        Ok(export)
    }
}

impl AmplitudeArguments {
    fn export(&self) -> anyhow::Result<AmplitudeExport> {
        let export = AmplitudeExport::new(AmplitudeSettings {
            url: self.from_url.clone(),
            api_key: self.api_key.clone(),
            secret_key: self.api_secret.clone(),
            from: self.range.from.clone(),
            until: self.range.until.clone(),
            hours_per_part: self.hours_per_part,
            rate_limit: AmplitudeExport::RATE_LIMIT,
        })?;
        Ok(export)
    }
}

/// Arguments of `fetch objects`.
#[derive(Args, Clone, Debug)]
pub struct ObjectsArguments {
    #[command(flatten)]
    options: FetchOptions,
    /// Prefix of the objects: s3://bucket/exports/2024, gs://bucket/exports or
    /// az://container/exports
    #[arg(value_name = "URL")]
    prefix: String,
}

/// Arguments of `fetch clickhouse`.
#[derive(Args, Clone, Debug)]
pub struct TableArguments {
    #[command(flatten)]
    options: FetchOptions,
    /// HTTP interface of the source's ClickHouse, such as http://clickhouse.example.com:8123
    #[arg(long, value_name = "URL")]
    from_url: String,
    /// ClickHouse user to read as
    #[arg(long, value_name = "USER", default_value = "default")]
    from_user: String,
    /// Password of that user
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "SOURCE_CLICKHOUSE_PASSWORD",
        hide_env_values = true,
        default_value = ""
    )]
    from_password: String,
    /// Table to read
    #[arg(long, value_name = "NAME", default_value = "posthog.events")]
    table: String,
    /// Id of the project in that table
    #[arg(long, alias = "from-team-id", value_name = "N", value_parser = project::<i64>)]
    from_project_id: i64,
    /// First day, as in 2024-01-31
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// Last day, included
    #[arg(long, value_name = "DAY")]
    until: Option<String>,
    /// Number of rows per query
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = count::<u64>)]
    page_rows: u64,
}

impl TableArguments {
    async fn export(&self) -> anyhow::Result<TableExport> {
        let clickhouse = ClickHouse::new(&self.from_url, &self.from_user, &self.from_password)?;
        let settings = TableSettings {
            table: self.table.clone(),
            project_id: self.from_project_id,
            from: self.from.clone(),
            until: self.until.clone(),
            page_rows: self.page_rows,
        };
        TableExport::open(clickhouse, settings).await
    }
}

impl Command {
    fn options(&self) -> &FetchOptions {
        match self {
            Self::Mixpanel(arguments) => &arguments.options,
            Self::Amplitude(arguments) => &arguments.options,
            Self::Objects(arguments) => &arguments.options,
            Self::Clickhouse(arguments) => &arguments.options,
        }
    }

    async fn export(
        &self,
        transfer: &Transfer,
        stats: &StageStats,
    ) -> anyhow::Result<Box<dyn Export>> {
        Ok(match self {
            Self::Mixpanel(arguments) => Box::new(arguments.export()?),
            Self::Amplitude(arguments) => Box::new(arguments.export()?),
            Self::Objects(arguments) => {
                Box::new(Objects::list(&arguments.prefix, transfer, stats).await?)
            }
            Self::Clickhouse(arguments) => Box::new(arguments.export().await?),
        })
    }
}

pub(super) fn run(command: &Command, invocation: &Invocation) -> anyhow::Result<()> {
    let FetchOptions { common, silence } = command.options();
    let staging = common.open()?;
    let transfer = Transfer {
        silence_timeout: Duration::from_secs((*silence).max(1)),
        ..Transfer::new(client()?)
    };
    let stats = Arc::new(StageStats::default());
    let reporter = ProgressReporter::start("fetch", &stats, common.audience());
    let fetched = connect::block_on(async {
        let export = command.export(&transfer, &stats).await?;
        let fetched = fetch(&*export, &staging, &transfer, &stats).await?;
        anyhow::Ok((fetched, export.left_out()))
    });
    drop(reporter);
    let (fetched, left_out) = fetched?;
    print_summary(common, &fetched, &left_out, &staging.data(), invocation);
    if left_out.is_empty() {
        return Ok(());
    }
    let named = left_out.iter().take(NAMED_MAX).map(|name| shown(name));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match left_out.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = counted(left_out.len() as u64, "object");
    bail!(
        "{count} left out: {named}{more}. No request can ask for names with a part . or .. or a control character; \
         copy them under other names and fetch again"
    );
}

fn print_summary(
    common: &Common,
    fetched: &FetchSummary,
    left_out: &[String],
    folder: &Path,
    invocation: &Invocation,
) {
    let FetchSummary {
        known,
        new,
        changed,
        bytes,
    } = *fetched;
    if common.json {
        let result = json!({
            "parts_known": known, "parts_fetched": new, "parts_changed": changed, "bytes": bytes,
            "left_out": left_out,
        });
        output::print_json(&json!({ "stage": "fetch", "result": result }).to_string());
        return;
    }
    output::print(&format!(
        "{} fetched ({}), {known} there already. They are in {}; look at them with:\n  {}",
        counted(new as u64, "part"),
        HumanBytes(bytes),
        folder.display(),
        invocation.command("import check", &SINGLE_RUN_OPTIONS)
    ));
    if changed > 0 {
        output::print(&format!(
            "{} had been fetched before and changed at the source since. What was loaded of the old ones stays; load \
             the new ones from a staging folder of their own.",
            counted(changed as u64, "part")
        ));
    }
}
