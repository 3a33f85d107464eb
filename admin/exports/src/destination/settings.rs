//! Fields of a destination's configuration, as checked and stored by the catalog.

use crate::error::ExportError;
use serde_json::Value;
use std::collections::BTreeMap;

/// Fields by name, secret ones included.
#[derive(Clone, Copy)]
pub(crate) struct Settings<'a> {
    config: &'a Value,
    secrets: &'a BTreeMap<String, String>,
}

impl<'a> Settings<'a> {
    pub(crate) fn new(config: &'a Value, secrets: &'a BTreeMap<String, String>) -> Self {
        Self { config, secrets }
    }

    /// Text of a field, unless it is blank.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        let secret = self.secrets.get(name).map(String::as_str);
        let found = secret.or_else(|| self.config.get(name).and_then(Value::as_str));
        found.filter(|text| !text.trim().is_empty())
    }

    /// Text of a required field.
    pub(crate) fn required(&self, name: &str) -> Result<&'a str, ExportError> {
        let missing = || ExportError::permanent(format!("The destination has no {name}."));
        self.text(name).ok_or_else(missing)
    }

    pub(crate) fn text_or(&self, name: &str, default: &'a str) -> &'a str {
        self.text(name).unwrap_or(default)
    }

    pub(crate) fn port_or(&self, default: u16) -> u16 {
        let given = self.config.get("port").and_then(Value::as_u64);
        let given = given.and_then(|port| u16::try_from(port).ok());
        given.unwrap_or(default)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.flag_or(name, false)
    }

    pub(crate) fn flag_or(&self, name: &str, default: bool) -> bool {
        let given = self.config.get(name).and_then(Value::as_bool);
        given.unwrap_or(default)
    }
}
