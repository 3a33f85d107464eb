//! Databricks' API: a token from `/oidc/v1/token`, then `POST /api/2.0/sql/statements/`, and `GET`
//! of its id while it is at work.

use super::sql::Names;
use crate::destination::calls::Pace;
use crate::destination::settings::Settings;
use crate::destination::warehouse::api::{Answer, Api};
use crate::destination::warehouse::token::{Kept, Token};
use crate::destination::warehouse::{Engine, Texts};
use crate::error::ExportError;
use async_trait::async_trait;
use millrace_rows::Clock;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};
use std::sync::Arc;

/// What carries statements out, at the end of `http_path`.
const WAREHOUSES: &str = "/sql/1.0/warehouses/";

/// One table's statements, carried out by Databricks.
pub(super) struct DatabricksEngine {
    pub(super) names: Names,
    warehouse: String,
    client_id: String,
    client_secret: String,
    base: Url,
    api: Api,
    token: Kept,
}

impl DatabricksEngine {
    pub(super) fn new(
        settings: &Settings<'_>,
        base: Url,
        client: Client,
        clock: Arc<dyn Clock>,
        pace: Pace,
    ) -> Result<Self, ExportError> {
        let path = settings.required("http_path")?;
        let warehouse = path.strip_prefix(WAREHOUSES).ok_or_else(|| {
            let message = format!("The http_path must be that of a SQL warehouse: {WAREHOUSES}….");
            ExportError::hopeless(message)
        })?;
        Ok(Self {
            names: Names {
                catalog: settings.required("catalog")?.to_owned(),
                schema: settings.required("schema")?.to_owned(),
                table: settings.required("table_name")?.to_owned(),
                variant_type: settings.flag_or("use_variant_type", true),
            },
            warehouse: warehouse.trim_end_matches('/').to_owned(),
            client_id: settings.required("client_id")?.to_owned(),
            client_secret: settings.required("client_secret")?.to_owned(),
            base,
            api: Api::new(client, pace, "Databricks"),
            token: Kept::new(clock),
        })
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }

    async fn log_in(&self) -> Result<Token, ExportError> {
        let url = self.url("/oidc/v1/token");
        let body = "grant_type=client_credentials&scope=all-apis";
        let make = |client: &Client| {
            let request = client.post(url.clone());
            let request = request.basic_auth(&self.client_id, Some(&self.client_secret));
            request
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(body)
        };
        let answer = self.api.call(make).await?;
        Token::of(&self.api, &answer)
    }

    async fn call(&self, make: impl Fn(&Client) -> RequestBuilder) -> Result<Answer, ExportError> {
        let token = self.token.get(|| self.log_in()).await?;
        self.api
            .call(|client| make(client).bearer_auth(&token))
            .await
    }

    /// Waits while Databricks is at work.
    async fn finished(&self, mut answer: Answer) -> Result<Answer, ExportError> {
        let mut asked = 0;
        while answer.status == StatusCode::OK
            && matches!(answer.text("/status/state"), Some("PENDING" | "RUNNING"))
        {
            let id = answer.text("/statement_id").unwrap_or_default();
            // It becomes a part of a path.
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if id.is_empty() || !id.bytes().all(plain) {
                return Err(self.api.odd(&answer));
            }
            asked += 1;
            self.api.pause(asked).await;
            let url = self.url(&format!("/api/2.0/sql/statements/{id}"));
            answer = self.call(|client| client.get(url.clone())).await?;
        }
        Ok(answer)
    }

    fn result(&self, answer: &Answer) -> Result<Option<String>, ExportError> {
        if answer.status != StatusCode::OK {
            return Err(self.api.refused(answer));
        }
        match answer.text("/status/state") {
            Some("SUCCEEDED") => {
                let first = answer.body.pointer("/result/data_array/0/0");
                Ok(first.and_then(Value::as_str).map(str::to_owned))
            }
            Some("FAILED") => Err(failure(answer)),
            Some("CANCELED" | "CLOSED") => {
                Err(ExportError::retry("Databricks stopped a statement."))
            }
            _ => Err(self.api.odd(answer)),
        }
    }
}

#[async_trait]
impl Engine for DatabricksEngine {
    fn product(&self) -> &'static str {
        "Databricks"
    }

    fn host(&self) -> (String, u16) {
        let host = self.base.host_str().unwrap_or_default().to_owned();
        (host, self.base.port_or_known_default().unwrap_or(443))
    }

    fn texts(&self, stage: &str) -> Texts {
        self.names.texts(stage)
    }

    async fn run(&self, sql: &str, rows: Option<&str>) -> Result<Option<String>, ExportError> {
        let parameter = |rows| json!({"name": "rows", "value": rows, "type": "STRING"});
        let parameters: Vec<_> = rows.into_iter().map(parameter).collect();
        let body = json!({
            "warehouse_id": self.warehouse,
            "statement": sql,
            "wait_timeout": "30s",
            "on_wait_timeout": "CONTINUE",
            "parameters": parameters,
        });
        let body = body.to_string();
        let url = self.url("/api/2.0/sql/statements/");
        let make = |client: &Client| {
            let request = client
                .post(url.clone())
                .header("Content-Type", "application/json");
            request.body(body.clone())
        };
        let work = async {
            let answer = self.call(make).await?;
            self.finished(answer).await
        };
        let done = tokio::time::timeout(self.api.pace.work_max, work).await;
        self.result(&done.map_err(|_| self.api.late())??)
    }
}

/// A statement that was not carried out. Databricks' own words may quote rows; its code does not.
fn failure(answer: &Answer) -> ExportError {
    let code = answer.text("/status/error/error_code").unwrap_or("no code");
    let message = format!("Databricks did not carry out a statement ({code:.40}).");
    match code {
        "BAD_REQUEST" | "NOT_FOUND" | "UNAUTHENTICATED" | "ALREADY_EXISTS" | "NOT_IMPLEMENTED" => {
            ExportError::hopeless(message)
        }
        _ => ExportError::retry(message),
    }
}
