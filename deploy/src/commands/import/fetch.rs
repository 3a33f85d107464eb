//! `millrace import fetch`: exports into the staging folder.

use super::Common;
use crate::open;
use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use millrace_import::clickhouse::ClickHouse;
use millrace_import::fetch::{Fetched, Objects, TableExport, TableSettings, run as fetch};
use millrace_import::meter::Meter;
use millrace_import::progress::Watch;
use millrace_import::send::client;
use millrace_sources::{
    AmplitudeExport, AmplitudeSettings, Export, MixpanelCredentials, MixpanelExport,
    MixpanelSettings,
};
use serde_json::json;
use std::sync::Arc;

/// What is fetched.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Mixpanel's raw export, a file a day
    #[command(
        after_help = "The export API takes 60 requests an hour; a year in days takes six hours, in --days-per-part 7 one."
    )]
    Mixpanel(MixpanelArguments),
    /// Amplitude's export, a file an hour
    Amplitude(AmplitudeArguments),
    /// Everything below a prefix of an object store
    #[command(
        after_help = "Credentials and endpoints are taken from the environment, under the names that the stores' \
        own tools use: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT; \
        GOOGLE_SERVICE_ACCOUNT; AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY."
    )]
    Objects(ObjectsArguments),
    /// The events table of another Millrace, or of PostHog, over ClickHouse's HTTP interface
    Clickhouse(TableArguments),
}

/// What `fetch mixpanel` is told.
#[derive(Args, Clone, Debug)]
pub struct MixpanelArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    range: Range,
    /// The service: https://data.mixpanel.com, https://data-eu.mixpanel.com or https://data-in.mixpanel.com
    #[arg(long, value_name = "URL", default_value = MixpanelExport::URL_US)]
    from_url: String,
    /// A service account's name; without one, the secret is the project's
    #[arg(long, value_name = "NAME", requires = "project_id")]
    service_account: Option<String>,
    /// The project to read
    #[arg(long, value_name = "N")]
    project_id: Option<u64>,
    /// The secret of the service account or the project; better given as MIXPANEL_SECRET
    #[arg(
        long,
        value_name = "SECRET",
        env = "MIXPANEL_SECRET",
        hide_env_values = true
    )]
    secret: String,
    /// Days of a file
    #[arg(long, value_name = "N", default_value_t = 1)]
    days_per_part: u32,
}

/// What `fetch amplitude` is told.
#[derive(Args, Clone, Debug)]
pub struct AmplitudeArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    range: Range,
    /// The service: https://amplitude.com or https://analytics.eu.amplitude.com
    #[arg(long, value_name = "URL", default_value = AmplitudeExport::URL_US)]
    from_url: String,
    /// The project's API key
    #[arg(long, value_name = "KEY", env = "AMPLITUDE_API_KEY")]
    api_key: String,
    /// The project's secret key; better given as AMPLITUDE_SECRET_KEY
    #[arg(
        long,
        value_name = "SECRET",
        env = "AMPLITUDE_SECRET_KEY",
        hide_env_values = true
    )]
    secret_key: String,
    /// Hours of a file
    #[arg(long, value_name = "N", default_value_t = 1)]
    hours_per_part: u32,
}

/// Which days.
#[derive(Args, Clone, Debug)]
pub struct Range {
    /// The first day, as in 2024-01-31
    #[arg(long, value_name = "DAY")]
    from: String,
    /// The last day
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
            pace: MixpanelExport::PACE,
        })?;
        Ok(export)
    }
}

impl AmplitudeArguments {
    fn export(&self) -> anyhow::Result<AmplitudeExport> {
        let export = AmplitudeExport::new(AmplitudeSettings {
            url: self.from_url.clone(),
            api_key: self.api_key.clone(),
            secret_key: self.secret_key.clone(),
            from: self.range.from.clone(),
            until: self.range.until.clone(),
            hours_per_part: self.hours_per_part,
            pace: AmplitudeExport::PACE,
        })?;
        Ok(export)
    }
}

/// What `fetch objects` is told.
#[derive(Args, Clone, Debug)]
pub struct ObjectsArguments {
    #[command(flatten)]
    common: Common,
    /// The prefix: s3://bucket/exports/2024, gs://bucket/exports or az://container/exports
    #[arg(value_name = "URL")]
    prefix: String,
}

/// What `fetch clickhouse` is told.
#[derive(Args, Clone, Debug)]
pub struct TableArguments {
    #[command(flatten)]
    common: Common,
    /// ClickHouse's HTTP interface, such as http://clickhouse.example.com:8123
    #[arg(long, value_name = "URL")]
    from_url: String,
    /// The user to read as
    #[arg(long, value_name = "USER", default_value = "default")]
    from_user: String,
    /// That user's password
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "SOURCE_CLICKHOUSE_PASSWORD",
        hide_env_values = true,
        default_value = ""
    )]
    from_password: String,
    /// The table
    #[arg(long, value_name = "NAME", default_value = "posthog.events")]
    table: String,
    /// Whose events there
    #[arg(long, value_name = "N")]
    from_team_id: i64,
    /// The first day, as in 2024-01-31
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// The last day
    #[arg(long, value_name = "DAY")]
    until: Option<String>,
    /// Rows that are asked for at once
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    page_rows: u64,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    open::block_on(async {
        let http = client()?;
        match command {
            Command::Mixpanel(arguments) => {
                stage(&arguments.common, &arguments.export()?, 0, &http).await
            }
            Command::Amplitude(arguments) => {
                stage(&arguments.common, &arguments.export()?, 0, &http).await
            }
            Command::Objects(arguments) => {
                let objects = Objects::list(&arguments.prefix, &http).await?;
                let bytes = objects.bytes();
                stage(&arguments.common, &objects, bytes, &http).await
            }
            Command::Clickhouse(arguments) => {
                let clickhouse = ClickHouse::new(
                    &arguments.from_url,
                    &arguments.from_user,
                    &arguments.from_password,
                )?;
                let settings = TableSettings {
                    table: arguments.table.clone(),
                    team_id: arguments.from_team_id,
                    from: arguments.from.clone(),
                    until: arguments.until.clone(),
                    page_rows: arguments.page_rows,
                };
                let table = TableExport::open(clickhouse, settings).await?;
                stage(&arguments.common, &table, 0, &http).await
            }
        }
    })
}

async fn stage(
    common: &Common,
    export: &dyn Export,
    bytes: u64,
    http: &reqwest::Client,
) -> anyhow::Result<()> {
    let staging = common.open()?;
    let meter = Arc::new(Meter::default());
    meter.expect(bytes);
    let watch = Watch::start("fetch", &meter, common.audience());
    let fetched = fetch(export, &staging, http, &meter).await;
    drop(watch);
    tell(common, &fetched?, &staging.data())
}

fn tell(common: &Common, fetched: &Fetched, folder: &std::path::Path) -> anyhow::Result<()> {
    let Fetched { known, new, bytes } = *fetched;
    if common.json {
        let result = json!({ "parts_known": known, "parts_fetched": new, "bytes": bytes });
        crate::print(&json!({ "stage": "fetch", "result": result }).to_string());
    } else {
        crate::print(&format!(
            "{new} parts fetched ({}), {known} were there already. They are in {}; look at them with \
             `millrace import check --staging {}`.",
            HumanBytes(bytes),
            folder.display(),
            common.staging.display()
        ));
    }
    Ok(())
}
