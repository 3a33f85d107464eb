//! Databricks' API: a token from `/oidc/v1/token`, then `POST /api/2.0/sql/statements/`, and `GET`
//! of its id while it is at work.

use super::sql::DatabricksSql;
use crate::destination::settings::Settings;
use crate::destination::table::Layout;
use crate::destination::warehouse::api::{Answer, Api};
use crate::destination::warehouse::engine::{Engine, Texts, bearer};
use crate::destination::warehouse::place::Place;
use crate::destination::warehouse::token::{Kept, Token};
use crate::error::ExportError;
use async_trait::async_trait;
use millrace_rows::Clock;
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// What carries statements out, at the end of `http_path`.
const WAREHOUSES: &str = "/sql/1.0/warehouses/";
/// Statements are sent to it, and their ids follow it.
const STATEMENTS: &str = "/api/2.0/sql/statements/";

/// One table's statements, carried out by Databricks.
pub(crate) struct DatabricksEngine {
    place: Place,
    sql: DatabricksSql,
    warehouse: String,
    client_id: String,
    client_secret: String,
    api: Api,
    token: Kept,
}

impl DatabricksEngine {
    pub(crate) fn new(
        settings: &Settings<'_>,
        layout: &'static Layout,
        api: Api,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ExportError> {
        let path = settings.required("http_path")?;
        let warehouse = path.strip_prefix(WAREHOUSES).ok_or_else(|| {
            let message = format!("The http_path must be that of a SQL warehouse: {WAREHOUSES}….");
            ExportError::hopeless(message)
        })?;
        Ok(Self {
            place: Place {
                database: settings.required("catalog")?.to_owned(),
                schema: settings.required("schema")?.to_owned(),
                table: settings.required("table_name")?.to_owned(),
                layout,
            },
            sql: DatabricksSql {
                variant_type: settings.flag_or("use_variant_type", true),
            },
            warehouse: warehouse.trim_end_matches('/').to_owned(),
            client_id: settings.required("client_id")?.to_owned(),
            client_secret: settings.required("client_secret")?.to_owned(),
            api,
            token: Kept::new(clock),
        })
    }

    async fn log_in(&self) -> Result<Token, ExportError> {
        let url = self.api.url("/oidc/v1/token");
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
}

#[async_trait]
impl Engine for DatabricksEngine {
    fn api(&self) -> &Api {
        &self.api
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn texts(&self, stage: &str) -> Texts {
        self.place.texts(&self.sql, stage)
    }

    async fn headers(&self) -> Result<HeaderMap, ExportError> {
        bearer(&self.token.get(|| self.log_in()).await?)
    }

    fn path(&self) -> &'static str {
        STATEMENTS
    }

    /// Databricks knows no ids of requests.
    fn target(&self, _id: Uuid, _is_again: bool) -> Url {
        self.api.url(STATEMENTS)
    }

    fn body(&self, sql: &str, rows: Option<&str>) -> Value {
        let parameter = |rows| json!({"name": "rows", "value": rows, "type": "STRING"});
        let parameters: Vec<_> = rows.into_iter().map(parameter).collect();
        json!({
            "warehouse_id": self.warehouse,
            "statement": sql,
            "wait_timeout": "30s",
            "on_wait_timeout": "CONTINUE",
            "parameters": parameters,
        })
    }

    fn working<'a>(&self, answer: &'a Answer) -> Option<&'a str> {
        let is_working = answer.status == StatusCode::OK
            && matches!(answer.text("/status/state"), Some("PENDING" | "RUNNING"));
        is_working.then(|| answer.text("/statement_id").unwrap_or_default())
    }

    fn result(&self, answer: &Answer) -> Result<Option<String>, ExportError> {
        if answer.status != StatusCode::OK {
            return Err(self.api.refused(answer));
        }
        match answer.text("/status/state") {
            Some("SUCCEEDED") => {
                let first = answer.text("/result/data_array/0/0");
                Ok(first.map(str::to_owned))
            }
            Some("FAILED") => Err(failure(answer)),
            Some("CANCELED" | "CLOSED") => {
                Err(ExportError::retry("Databricks stopped a statement."))
            }
            _ => Err(self.api.odd(answer)),
        }
    }
}

/// A statement that was not carried out. Databricks' own words may quote rows; its code does not.
fn failure(answer: &Answer) -> ExportError {
    let code = answer.text("/status/error/error_code").unwrap_or("no code");
    let message = format!("Databricks did not carry out a statement ({code:.40}).");
    if is_conflict(answer) {
        let message =
            "Others changed the table in Databricks at the same time (a conflict in Delta).";
        return ExportError::retry(message);
    }
    match code {
        "BAD_REQUEST" | "NOT_FOUND" | "UNAUTHENTICATED" | "ALREADY_EXISTS" | "NOT_IMPLEMENTED" => {
            ExportError::hopeless(message)
        }
        _ => ExportError::retry(message),
    }
}

/// Tells a conflict with others who changed the table at the same time. The code is that of a bad request then, too. `sql_state`
/// (`StatementStatus` in the reference of the API) is 2D521 for appends, deletions and writes at the same time
/// and for tables that changed meanwhile (docs.databricks.com/en/error-messages/error-classes, `DELTA_CONCURRENT_APPEND`
/// and its like); older services have the name of the condition only, at the beginning of their words.
fn is_conflict(answer: &Answer) -> bool {
    const CONDITIONS: [&str; 3] = [
        "[DELTA_CONCURRENT_",
        "[DELTA_METADATA_CHANGED",
        "[DELTA_PROTOCOL_CHANGED",
    ];
    let words = answer.text("/status/error/message").unwrap_or_default();
    answer.text("/status/sql_state") == Some("2D521")
        || CONDITIONS.iter().any(|name| words.starts_with(name))
}
