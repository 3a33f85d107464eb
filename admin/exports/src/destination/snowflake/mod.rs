//! Tables in Snowflake, by its SQL API.
//!
//! The API takes a token signed with the user's key (`authentication_type` `keypair`), or a
//! programmatic access token, which goes into `password`: it does not take the passwords of users.
//! Each request has an id, under which Snowflake carries it out once however often it is sent.
//!
//! **Tested against a fake of what Snowflake's documents say only.**

mod engine;
mod sql;

pub(super) use engine::SnowflakeEngine;

use super::settings::Settings;
use crate::error::ExportError;
use url::Url;

/// Base URL of an account.
pub(super) fn base(settings: &Settings<'_>) -> Result<Url, ExportError> {
    let account = settings.required("account")?;
    let wrong = |_| ExportError::permanent("The account is not part of a server's name.");
    Url::parse(&format!("https://{account}.snowflakecomputing.com")).map_err(wrong)
}
