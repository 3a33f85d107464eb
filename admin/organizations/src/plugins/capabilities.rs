//! Main file of a source, which determines the plugin's capabilities, and its parser.

use async_trait::async_trait;
use sea_orm::prelude::Uuid;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names of main files, tried in order if `plugin.json` names none.
const MAIN_FILES: [&str; 4] = ["index.ts", "index.js", "dist/index.js", "src/index.ts"];
/// Name of the manifest.
pub(super) const MANIFEST: &str = "plugin.json";

/// Functions, jobs and tasks that a main file exports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginCapabilities {
    /// Functions that the platform calls.
    pub methods: Vec<String>,
    /// Jobs that run in the background on request.
    pub jobs: Vec<String>,
    /// Functions that run on a schedule.
    pub scheduled_tasks: Vec<String>,
}

/// Parser of main files. They are customers' input: whatever they do to the parser, this process
/// must go on.
#[async_trait]
pub trait SourceParser: fmt::Debug + Send + Sync {
    /// Parses a main file of an organization, one at a time for each organization.
    ///
    /// # Errors
    ///
    /// See [`SourceParseError`].
    async fn parse(
        &self,
        organization_id: Uuid,
        source: String,
    ) -> Result<PluginCapabilities, SourceParseError>;
}

/// Reason why a main file was not parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceParseError {
    /// The file takes more time, memory or stack than any source may.
    #[error("reading it takes more time or memory than a plugin's source may take")]
    TooComplex,
    /// The file is no valid code.
    #[error(
        "this is neither JavaScript nor TypeScript from line {line}, column {column} on; correct it there"
    )]
    Mistake {
        /// Line, counted from 1.
        line: usize,
        /// Character in the line, counted from 1.
        column: usize,
    },
    /// The parser fails or is overloaded at this moment.
    #[error("sources of plugins cannot be read now: {0}")]
    Unavailable(String),
}

/// Name of the main file in a manifest. Nothing else is kept: a manifest of before may have more
/// values than one that is sent now.
#[derive(Deserialize)]
struct NamedMain {
    main: Option<String>,
}

/// Finds the main file among files, as (name, text).
pub(super) fn main_file(files: &[(String, String)]) -> Option<(&str, &str)> {
    let of_name = |name: &str| {
        let file = files.iter().find(|(file, _)| file == name);
        file.map(|(name, text)| (name.as_str(), text.as_str()))
    };
    // serde would read a list as the fields of the manifest, too.
    let manifest = of_name(MANIFEST).filter(|(_, text)| text.trim_start().starts_with('{'));
    let named = manifest.and_then(|(_, text)| serde_json::from_str::<NamedMain>(text).ok());
    let named = named.as_ref().and_then(|manifest| manifest.main.as_deref());
    let named = named.map(|name| name.trim_start_matches("./"));
    named.into_iter().chain(MAIN_FILES).find_map(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_catalog::bounded_json::VALUES_MAX;
    use millrace_catalog::testing::nested_markers;

    #[test]
    fn the_manifest_names_the_main_file() {
        let nested = nested_markers(200, 120);
        let values = "0,".repeat(2 * VALUES_MAX);
        let large = format!(r#"{{"config":[{values}0],"main":"a.js"}}"#);
        let table = [
            (
                &[
                    ("plugin.json", r#"{"main":"./lib/a.js"}"#),
                    ("lib/a.js", ""),
                ][..],
                Some("lib/a.js"),
            ),
            (
                &[("plugin.json", r#"{"main":"gone.js"}"#), ("index.js", "")],
                Some("index.js"),
            ),
            (
                &[("plugin.json", "no JSON"), ("dist/index.js", "")],
                Some("dist/index.js"),
            ),
            (&[("index.js", ""), ("index.ts", "")], Some("index.ts")),
            (&[("plugin.json", "{}"), ("README.md", "")], None),
            (
                &[("plugin.json", nested.as_str()), ("index.js", "")],
                Some("index.js"),
            ),
            (
                &[
                    ("plugin.json", large.as_str()),
                    ("index.js", ""),
                    ("a.js", ""),
                ],
                Some("a.js"),
            ),
            (
                &[("plugin.json", r#"{"main":["a.js"]}"#), ("a.js", "")],
                None,
            ),
            (&[("plugin.json", r#"["a.js"]"#), ("a.js", "")], None),
        ];
        for (files, main) in table {
            let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
            let files: Vec<_> = files.iter().map(owned).collect();
            assert_eq!(main_file(&files).map(|(name, _)| name), main, "{files:?}");
        }
    }
}
