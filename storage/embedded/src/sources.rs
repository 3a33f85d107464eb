//! Ways out of the database that an operator can open, by name; all are closed otherwise.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A kind of place outside of the database that statements may read from and write to.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Source(&'static Way);

/// All that is opened with one.
#[derive(Debug, Eq, PartialEq)]
struct Way {
    name: &'static str,
    /// As ClickHouse grants it: `GRANT READ, WRITE ON …`.
    grant: &'static str,
    functions: &'static [&'static str],
    engines: &'static [&'static str],
    is_remote: bool,
}

/// A name that no source has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is no source; there are {names}", names = names())]
pub struct UnknownSource(String);

const WAYS: [Way; 11] = [
    way(
        "azure",
        "AZURE",
        &["azureBlobStorage"],
        &["AzureBlobStorage"],
    ),
    Way {
        is_remote: false,
        ..way("file", "FILE", &["file"], &["File"])
    },
    way("hdfs", "HDFS", &["hdfs"], &["HDFS"]),
    way("mongodb", "MONGO", &["mongodb"], &["MongoDB"]),
    way("mysql", "MYSQL", &["mysql"], &["MySQL"]),
    way("postgresql", "POSTGRES", &["postgresql"], &["PostgreSQL"]),
    way("redis", "REDIS", &["redis"], &["Redis"]),
    way(
        "remote",
        "REMOTE",
        &["remote", "remoteSecure"],
        &["Remote", "RemoteSecure"],
    ),
    way(
        "s3",
        "S3",
        &["s3", "gcs", "oss", "cosn"],
        &["S3", "GCS", "OSS", "COSN"],
    ),
    Way {
        is_remote: false,
        ..way("sqlite", "SQLITE", &["sqlite"], &["SQLite"])
    },
    way("url", "URL", &["url"], &["URL"]),
];

const fn way(
    name: &'static str,
    grant: &'static str,
    functions: &'static [&'static str],
    engines: &'static [&'static str],
) -> Way {
    Way {
        name,
        grant,
        functions,
        engines,
        is_remote: true,
    }
}

fn names() -> String {
    WAYS.map(|way| way.name).join(", ")
}

// === impl Source ===

impl Source {
    pub(crate) fn grant(self) -> &'static str {
        self.0.grant
    }

    /// Functions and table functions that lead there.
    pub(crate) fn functions(self) -> &'static [&'static str] {
        self.0.functions
    }

    /// Engines of tables that are there.
    pub(crate) fn engines(self) -> &'static [&'static str] {
        self.0.engines
    }

    /// Whether it is reached over the network.
    pub(crate) fn is_remote(self) -> bool {
        self.0.is_remote
    }
}

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let name = text.trim();
        let found = WAYS.iter().find(|way| way.name.eq_ignore_ascii_case(name));
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
    fn sources_go_by_their_names_only() {
        let source: Source = " S3".parse().unwrap();
        assert_eq!(
            (source.to_string(), source.is_remote()),
            ("s3".to_owned(), true)
        );
        let told = "ftp".parse::<Source>().unwrap_err().to_string();
        assert!(
            told.contains("\"ftp\"") && told.contains("azure, file, hdfs"),
            "{told}"
        );
    }
}
