//! BigQuery's API: calls with the service account's token, tables, jobs and their outcome.

use super::failure;
use super::sql::TableRef;
use crate::destination::settings::Settings;
use crate::destination::table::Layout;
use crate::destination::warehouse::api::{Api, ApiResponse};
use crate::destination::warehouse::jwt::Signer;
use crate::destination::warehouse::token::{CachedToken, Token};
use crate::error::ExportError;
use millrace_rows::Clock;
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use url::form_urlencoded;

/// OAuth scope of the token.
const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
/// OAuth grant type of a login by key.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Time in which a job that is cancelled may end; its staging table is dropped after that.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(20);

/// Reference by which a job is found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Job {
    project_id: String,
    job_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
}

/// BigQuery as a service: a service account, and the table that it fills.
pub(crate) struct BigQueryService {
    pub(super) table_ref: TableRef,
    email: String,
    key_id: String,
    signer: Signer,
    token_uri: Url,
    pub(super) api: Api,
    token: CachedToken,
    clock: Arc<dyn Clock>,
}

impl BigQueryService {
    pub(crate) fn new(
        settings: &Settings<'_>,
        layout: &'static Layout,
        api: Api,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ExportError> {
        let table_ref = TableRef::new(
            settings.required("project_id")?,
            settings.required("dataset_id")?,
            settings.text_or("table_id", layout.rows),
            settings.flag("use_json_type"),
            layout,
        )?;
        let wrong = |_| ExportError::permanent("The token_uri is not a URL.");
        Ok(Self {
            table_ref,
            email: settings.required("client_email")?.to_owned(),
            key_id: settings.required("private_key_id")?.to_owned(),
            signer: Signer::of_pem(settings.required("private_key")?, None)?,
            token_uri: Url::parse(settings.required("token_uri")?).map_err(wrong)?,
            api: api.with_passing_reason(failure::passing_reason),
            token: CachedToken::new(Arc::clone(&clock)),
            clock,
        })
    }

    /// URL of a resource of the project.
    pub(super) fn url(&self, before: &str, path: &str) -> Url {
        let project = &self.table_ref.project;
        let path = format!("{before}/bigquery/v2/projects/{project}/{path}");
        self.api.url(&path)
    }

    pub(super) async fn log_in(&self) -> Result<Token, ExportError> {
        let now = self.clock.now().0 / 1_000_000;
        let claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.token_uri.as_str(),
            "iat": now,
            "exp": now + 3_600,
        });
        let assertion = self.signer.token(Some(&self.key_id), &claims)?;
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", GRANT)
            .append_pair("assertion", &assertion)
            .finish();
        let make = |client: &Client| {
            let request = client.post(self.token_uri.clone());
            let request = request.header("Content-Type", "application/x-www-form-urlencoded");
            request.body(body.clone())
        };
        let answer = self.api.call(make).await?;
        Token::of(&self.api, &answer)
    }

    pub(super) async fn call(
        &self,
        make: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<ApiResponse, ExportError> {
        let token = self.token.get(|| self.log_in()).await?;
        self.api
            .call(|client| make(client).bearer_auth(&token))
            .await
    }

    async fn post(&self, url: Url, body: &Value) -> Result<ApiResponse, ExportError> {
        let body = body.to_string();
        let make = |client: &Client| {
            let request = client
                .post(url.clone())
                .header("Content-Type", "application/json");
            request.body(body.clone())
        };
        self.call(make).await
    }

    /// Location of the dataset: jobs are found only there.
    pub(super) async fn find_dataset(&self) -> Result<Option<String>, ExportError> {
        let url = self.url("", &format!("datasets/{}", self.table_ref.dataset));
        let answer = self.call(|client| client.get(url.clone())).await?;
        self.done(&answer)?;
        Ok(answer.text("/location").map(str::to_owned))
    }

    /// Number of rows of a table that were loaded; an error if the table does not exist.
    pub(super) async fn rows_of(&self, table: &str) -> Result<u64, ExportError> {
        let url = self.table_url(table);
        let answer = self.call(|client| client.get(url.clone())).await?;
        self.done(&answer)?;
        let rows = answer.text("/numRows");
        Ok(rows.and_then(|rows| rows.parse().ok()).unwrap_or(0))
    }

    fn table_url(&self, table: &str) -> Url {
        let dataset = &self.table_ref.dataset;
        self.url("", &format!("datasets/{dataset}/tables/{table}"))
    }

    /// Creates a table, unless it exists.
    pub(super) async fn create_table(&self, table: &str) -> Result<(), ExportError> {
        let url = self.url("", &format!("datasets/{}/tables", self.table_ref.dataset));
        let body = json!({
            "tableReference": self.table_ref.reference(table),
            "schema": self.table_ref.schema(),
        });
        let answer = self.post(url, &body).await?;
        if answer.status == StatusCode::CONFLICT {
            return Ok(());
        }
        self.done(&answer)
    }

    /// Drops a table, if it exists.
    pub(super) async fn delete_table(&self, table: &str) -> Result<(), ExportError> {
        let url = self.table_url(table);
        let answer = self.call(|client| client.delete(url.clone())).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        self.done(&answer)
    }

    fn done(&self, answer: &ApiResponse) -> Result<(), ExportError> {
        if answer.status.is_success() {
            return Ok(());
        }
        Err(self.api.refused(answer))
    }

    /// Starts a job by its id, or finds the one that was started under it, and waits for its end.
    pub(super) async fn query(&self, job: &Job, sql: &str) -> Result<Value, ExportError> {
        let body = json!({
            "jobReference": job,
            "configuration": {"query": {"query": sql, "useLegacySql": false}},
        });
        let answer = self.post(self.url("", "jobs"), &body).await?;
        if answer.status == StatusCode::CONFLICT || answer.status.is_success() {
            return self.finished(job).await;
        }
        Err(self.api.refused(&answer))
    }

    /// Reference of a job by its id.
    pub(super) fn job(&self, id: String, location: Option<&str>) -> Job {
        Job {
            project_id: self.table_ref.project.clone(),
            job_id: id,
            location: location.map(str::to_owned),
        }
    }

    /// URL of a job, with an action behind it.
    fn job_url(&self, job: &Job, action: &str) -> Url {
        let mut url = self.url("", &format!("jobs/{}{action}", job.job_id));
        if let Some(location) = &job.location {
            url.query_pairs_mut().append_pair("location", location);
        }
        url
    }

    /// Cancels a job that may be under way, and waits for its end: a load creates its table when it
    /// ends.
    pub(super) async fn cancel(&self, job: &Job) {
        let url = self.job_url(job, "/cancel");
        let cancelling = async {
            // Google refuses a POST without a length.
            let make = |client: &Client| client.post(url.clone()).header(CONTENT_LENGTH, "0");
            let answer = self.call(make).await;
            // Otherwise there is no such job, or nothing can be done about it.
            if answer.is_ok_and(|answer| answer.status.is_success()) {
                let _ = self.finished(job).await;
            }
        };
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, cancelling).await;
    }

    /// Waits for the end of a job.
    pub(super) async fn finished(&self, job: &Job) -> Result<Value, ExportError> {
        let url = self.job_url(job, "");
        let wait = async {
            let mut asked = 0;
            loop {
                let answer = self.call(|client| client.get(url.clone())).await?;
                if !answer.status.is_success() {
                    return Err(self.api.refused(&answer));
                }
                if answer.text("/status/state") == Some("DONE") {
                    return Ok(answer);
                }
                asked += 1;
                self.api.pause(asked).await;
            }
        };
        let done = tokio::time::timeout(self.api.retry_policy.work_max, wait).await;
        let answer = done.map_err(|_| self.api.timed_out())??;
        match answer.text("/status/errorResult/reason") {
            None => Ok(answer.body),
            Some(reason) => {
                let words = answer.text("/status/errorResult/message");
                Err(failure::of_job(reason, words.unwrap_or_default()))
            }
        }
    }
}
