//! Snowflake's SQL API: `POST /api/v2/statements`, and `GET` of the statement's handle while it
//! runs.

use super::sql::SnowflakeSql;
use crate::destination::settings::Settings;
use crate::destination::table::Layout;
use crate::destination::warehouse::api::{Api, ApiResponse};
use crate::destination::warehouse::engine::{Engine, bearer};
use crate::destination::warehouse::jwt::Signer;
use crate::destination::warehouse::statements::Statements;
use crate::destination::warehouse::table_ref::TableRef;
use crate::error::ExportError;
use async_trait::async_trait;
use millrace_rows::Clock;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{StatusCode, Url};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// Lifetime of a token: longer than all tries of one request, and less than the hour that is
/// allowed.
const TOKEN_SECONDS: i64 = 3_000;

/// Credentials of a user.
enum Credentials {
    /// Private key whose public half the user has.
    Key {
        signer: Signer,
        /// `ACCOUNT.USER`.
        subject: String,
        fingerprint: String,
    },
    /// Programmatic access token.
    Token(String),
}

/// Request body of a statement.
#[derive(Serialize)]
struct Statement<'a> {
    statement: &'a str,
    /// Time limit in seconds.
    timeout: u64,
    database: &'a str,
    schema: &'a str,
    warehouse: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bindings: Option<Value>,
}

/// Snowflake as a service that carries out one table's statements.
pub(crate) struct SnowflakeEngine {
    table_ref: TableRef,
    warehouse: String,
    role: Option<String>,
    credentials: Credentials,
    api: Api,
    clock: Arc<dyn Clock>,
}

impl SnowflakeEngine {
    pub(crate) fn new(
        settings: &Settings<'_>,
        layout: &'static Layout,
        api: Api,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ExportError> {
        Ok(Self {
            table_ref: TableRef {
                database: settings.required("database")?.to_owned(),
                schema: settings.required("schema")?.to_owned(),
                table: settings.text_or("table_name", layout.rows).to_owned(),
                layout,
            },
            warehouse: settings.required("warehouse")?.to_owned(),
            role: settings.text("role").map(str::to_owned),
            credentials: Credentials::of(settings)?,
            api,
            clock,
        })
    }

    /// Creates a token, with its kind.
    fn token(&self) -> Result<(&'static str, String), ExportError> {
        match &self.credentials {
            Credentials::Token(token) => Ok(("PROGRAMMATIC_ACCESS_TOKEN", token.clone())),
            Credentials::Key {
                signer,
                subject,
                fingerprint,
            } => {
                let now = self.clock.now().0 / 1_000_000;
                let claims = json!({
                    "iss": format!("{subject}.{fingerprint}"),
                    "sub": subject,
                    "iat": now,
                    "exp": now + TOKEN_SECONDS,
                });
                Ok(("KEYPAIR_JWT", signer.token(None, &claims)?))
            }
        }
    }
}

impl Credentials {
    fn of(settings: &Settings<'_>) -> Result<Self, ExportError> {
        if settings.text("authentication_type") != Some("keypair") {
            return Ok(Self::Token(settings.required("password")?.to_owned()));
        }
        let passphrase = settings.text("private_key_passphrase");
        let signer = Signer::of_pem(settings.required("private_key")?, passphrase)?;
        let unknown = || ExportError::permanent("The private key has no public half.");
        // The region is no part of the account's name.
        let account = settings
            .required("account")?
            .split('.')
            .next()
            .unwrap_or_default();
        let user = settings.required("user")?;
        Ok(Self::Key {
            fingerprint: signer.fingerprint().ok_or_else(unknown)?,
            subject: format!("{account}.{user}").to_uppercase(),
            signer,
        })
    }
}

#[async_trait]
impl Engine for SnowflakeEngine {
    fn api(&self) -> &Api {
        &self.api
    }

    fn table_ref(&self) -> &TableRef {
        &self.table_ref
    }

    fn statements(&self, stage: &str) -> Statements {
        self.table_ref.statements(&SnowflakeSql, stage)
    }

    async fn headers(&self) -> Result<HeaderMap, ExportError> {
        let (kind, token) = self.token()?;
        let mut headers = bearer(&token)?;
        let kind = HeaderValue::from_static(kind);
        headers.insert("X-Snowflake-Authorization-Token-Type", kind);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("millrace/1.0"));
        Ok(headers)
    }

    fn path(&self) -> &'static str {
        "/api/v2/statements/"
    }

    /// Snowflake carries out a statement once per request id.
    fn target(&self, id: Uuid, is_again: bool) -> Url {
        let mut url = self.api.url("/api/v2/statements");
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("requestId", &id.to_string());
        if is_again {
            pairs.append_pair("retry", "true");
        }
        drop(pairs);
        url
    }

    fn body(&self, sql: &str, rows: Option<&str>) -> Value {
        json!(Statement {
            statement: sql,
            timeout: self.api.retry_policy.work_max.as_secs(),
            database: &self.table_ref.database,
            schema: &self.table_ref.schema,
            warehouse: &self.warehouse,
            role: self.role.as_deref(),
            bindings: rows.map(|rows| json!({"1": {"type": "TEXT", "value": rows}})),
        })
    }

    fn working<'a>(&self, answer: &'a ApiResponse) -> Option<&'a str> {
        let is_working = answer.status == StatusCode::ACCEPTED;
        is_working.then(|| answer.text("/statementHandle").unwrap_or_default())
    }

    fn result(&self, answer: &ApiResponse) -> Result<Option<String>, ExportError> {
        match answer.status {
            StatusCode::OK => {
                let first = answer.text("/data/0/0");
                Ok(first.map(str::to_owned))
            }
            StatusCode::UNPROCESSABLE_ENTITY => Err(failure(answer)),
            StatusCode::UNAUTHORIZED if matches!(self.credentials, Credentials::Token(_)) => {
                Err(ExportError::permanent(
                    "Snowflake did not accept the credentials. Its SQL API accepts no passwords of \
                     users: give a programmatic access token as the password, or a key.",
                ))
            }
            _ => Err(self.api.refused(answer)),
        }
    }
}

/// Error for a statement that was not carried out. Snowflake's message may quote rows; its code
/// does not.
fn failure(answer: &ApiResponse) -> ExportError {
    let code = answer.text("/code").filter(|code| code.len() <= 12);
    let code = code.unwrap_or("no code");
    if is_passing(answer.text("/sqlState").unwrap_or_default(), code) {
        let message = format!(
            "Snowflake stopped a statement, as others held the table or the warehouse for too long, or somebody \
             cancelled it ({code})."
        );
        return ExportError::retryable(message);
    }
    ExportError::permanent(match code {
        "002003" | "002043" | "090105" => format!(
            "Snowflake does not find the database, the schema or the table, or the role may not \
             use it ({code})."
        ),
        "003001" => format!("The role lacks rights that are needed ({code})."),
        "000606" => format!("Snowflake cannot use the warehouse ({code})."),
        "000904" => format!("The table lacks columns that events need ({code})."),
        _ => format!("Snowflake did not carry out a statement ({code})."),
    })
}

/// Returns true if a failed statement may succeed later, by the `sqlState` of the answer
/// (`QueryFailureStatus` in the reference of the SQL API,
/// docs.snowflake.com/en/developer-guide/sql-api/reference), which is the standard's. Messages
/// quoted by users show 57014 (cancelled) for statements that were stopped by somebody (000604),
/// that waited with many others for one lock (000625), and that reached
/// `STATEMENT_TIMEOUT_IN_SECONDS` (000630); that time-outs of locks and queues have it as well is
/// an assumption. 57P03 of the same class says that no usable warehouse was named, which a retry
/// does not help. An answer without a state is classified by those codes.
fn is_passing(state: &str, code: &str) -> bool {
    match state.get(..2) {
        // Connections, resources, and transactions that were rolled back for others.
        Some("08" | "40" | "53") => true,
        Some("57") => state == "57014",
        Some(_) => false,
        None => matches!(code, "000604" | "000625" | "000630"),
    }
}
