//! External sources that an operator can open, by name; all are closed by default.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A kind of external storage that statements may read from and write to.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Source(&'static SourceRules);

/// Everything that opening a source permits.
#[derive(Debug, Eq, PartialEq)]
struct SourceRules {
    name: &'static str,
    /// Name in ClickHouse's `GRANT READ, WRITE ON …`.
    grant: &'static str,
    engines: &'static [&'static str],
    is_remote: bool,
}

/// The name of no source.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not a source; there are {names}", names = names())]
pub struct UnknownSource(String);

const SOURCES: [SourceRules; 11] = [
    source_rules("azure", "AZURE", &["AzureBlobStorage"]),
    SourceRules {
        is_remote: false,
        ..source_rules("file", "FILE", &["File"])
    },
    source_rules("hdfs", "HDFS", &["HDFS"]),
    source_rules("mongodb", "MONGO", &["MongoDB"]),
    source_rules("mysql", "MYSQL", &["MySQL"]),
    source_rules("postgresql", "POSTGRES", &["PostgreSQL"]),
    source_rules("redis", "REDIS", &["Redis"]),
    source_rules("remote", "REMOTE", &["Remote", "RemoteSecure"]),
    source_rules("s3", "S3", &["S3", "GCS", "OSS", "COSN"]),
    SourceRules {
        is_remote: false,
        ..source_rules("sqlite", "SQLITE", &["SQLite"])
    },
    source_rules("url", "URL", &["URL"]),
];

const fn source_rules(
    name: &'static str,
    grant: &'static str,
    engines: &'static [&'static str],
) -> SourceRules {
    SourceRules {
        name,
        grant,
        engines,
        is_remote: true,
    }
}

fn names() -> String {
    SOURCES.map(|source| source.name).join(", ")
}

// === impl Source ===

impl Source {
    pub(crate) fn grant(self) -> &'static str {
        self.0.grant
    }

    /// Engines of tables that are stored there.
    pub(crate) fn engines(self) -> &'static [&'static str] {
        self.0.engines
    }

    /// Returns true if the source is reached over the network.
    #[must_use]
    pub fn is_remote(self) -> bool {
        self.0.is_remote
    }
}

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let name = text.trim();
        let found = SOURCES
            .iter()
            .find(|source| source.name.eq_ignore_ascii_case(name));
        found
            .map(Self)
            .ok_or_else(|| UnknownSource(name.to_owned()))
    }
}

impl Display for Source {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_parsed_from_their_names_only() {
        let source: Source = " S3".parse().unwrap();
        assert_eq!(
            (source.to_string(), source.is_remote()),
            ("s3".to_owned(), true)
        );
        let message = "ftp".parse::<Source>().unwrap_err().to_string();
        assert!(
            message.contains("\"ftp\"") && message.contains("azure, file, hdfs"),
            "{message}"
        );
    }
}
