//! Scopes of personal keys.

use sea_orm::FromJsonQueryResult;
use serde::{Deserialize, Serialize};

/// Scope for everything except [`OPERATOR`].
pub const ALL: &str = "*";
/// Scope for operating the installation; issued on the command line only, and no part of [`ALL`].
pub const OPERATOR: &str = "operator";

/// Families of scopes, each with a `:read` and a `:write`.
pub const SCOPE_FAMILIES: [&str; 11] = [
    "organization",
    "organization_member",
    "batch_export",
    "plugin",
    "project",
    "role",
    "proxy_record",
    "activity_log",
    "historical_migration",
    "query",
    "event",
];

/// Scope that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredScope {
    /// Family, one of [`SCOPE_FAMILIES`].
    pub family: &'static str,
    /// True if the operation writes.
    pub write: bool,
}

impl RequiredScope {
    /// Scope for reading in a family.
    #[must_use]
    pub const fn read(family: &'static str) -> Self {
        Self {
            family,
            write: false,
        }
    }

    /// Scope for writing in a family.
    #[must_use]
    pub const fn write(family: &'static str) -> Self {
        Self {
            family,
            write: true,
        }
    }
}

/// Scopes of a key, validated. Stored as a JSON array of strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Validates scopes and drops duplicates, in the given order.
    ///
    /// # Errors
    ///
    /// A scope is unknown, or there are none.
    pub fn parse<I, S>(scopes: I) -> Result<Self, ScopeError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let mut kept: Vec<String> = Vec::new();
        for scope in scopes {
            let scope = scope.as_ref().trim();
            if !is_known(scope) {
                return Err(ScopeError::Unknown(scope.to_owned()));
            }
            if !kept.iter().any(|had| had == scope) {
                kept.push(scope.to_owned());
            }
        }
        if kept.is_empty() {
            return Err(ScopeError::Empty);
        }
        Ok(Self(kept))
    }

    /// Scopes of a first key: everything but operating the installation.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![ALL.to_owned()])
    }

    /// Scopes in the given order.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Returns true if `required` is covered: by itself, by `:write` where `:read` is required, or
    /// by `*`.
    #[must_use]
    pub fn allow(&self, required: RequiredScope) -> bool {
        self.0.iter().any(|scope| match scope.split_once(':') {
            None => scope == ALL,
            Some((family, action)) => {
                family == required.family && (action == "write" || !required.write)
            }
        })
    }

    /// Returns true if every scope of `other` is covered by one of these.
    #[must_use]
    pub fn cover(&self, other: &Self) -> bool {
        let covers = |had: &str, wanted: &str| {
            let read_of = wanted.strip_suffix(":read");
            had == wanted
                || (had == ALL && wanted != OPERATOR)
                || read_of.is_some_and(|family| had.strip_suffix(":write") == Some(family))
        };
        let mut wanted = other.0.iter();
        wanted.all(|wanted| self.0.iter().any(|had| covers(had, wanted)))
    }

    /// Returns true if the key may operate the installation.
    #[must_use]
    pub fn operate(&self) -> bool {
        self.0.iter().any(|scope| scope == OPERATOR)
    }
}

/// Reason why scopes were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// There are no scopes; such a key could do nothing.
    #[error("at least one scope is needed, such as organization:read, or * for all")]
    Empty,
    /// A scope is unknown.
    #[error(
        "unknown scope {0:?}; scopes are *, operator and <family>:read or <family>:write, the \
         families being organization, organization_member, batch_export, plugin, project, role, \
         proxy_record, activity_log, historical_migration, query and event"
    )]
    Unknown(String),
}

fn is_known(scope: &str) -> bool {
    match scope.split_once(':') {
        None => scope == ALL || scope == OPERATOR,
        Some((family, action)) => {
            SCOPE_FAMILIES.contains(&family) && (action == "read" || action == "write")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_implies_read_and_star_all_but_operating() {
        let table: [(&[&str], RequiredScope, bool); 8] = [
            (
                &["organization:read"],
                RequiredScope::read("organization"),
                true,
            ),
            (
                &["organization:read"],
                RequiredScope::write("organization"),
                false,
            ),
            (
                &["organization:write"],
                RequiredScope::read("organization"),
                true,
            ),
            (
                &["organization:write"],
                RequiredScope::read("organization_member"),
                false,
            ),
            (
                &["plugin:read", "role:write"],
                RequiredScope::write("role"),
                true,
            ),
            (&["*"], RequiredScope::write("historical_migration"), true),
            (&["operator"], RequiredScope::read("organization"), false),
            (
                &["operator", "*"],
                RequiredScope::read("organization"),
                true,
            ),
        ];
        for (scopes, need, allowed) in table {
            let scopes = Scopes::parse(scopes).unwrap();
            assert_eq!(scopes.allow(need), allowed, "{scopes:?} {need:?}");
        }
        assert!(!Scopes::all().operate());
        assert!(Scopes::parse(["operator"]).unwrap().operate());
    }

    #[test]
    fn scopes_cover_what_they_include() {
        let table: [(&[&str], &[&str], bool); 10] = [
            (&["*"], &["*"], true),
            (&["*"], &["role:read", "plugin:write"], true),
            (&["*"], &["operator"], false),
            (&["operator"], &["operator"], true),
            (&["operator"], &["role:read"], false),
            (&["role:write"], &["role:read"], true),
            (&["role:read"], &["role:write"], false),
            (&["role:write"], &["plugin:read"], false),
            (
                &["role:write", "plugin:read"],
                &["plugin:read", "role:read"],
                true,
            ),
            (&["role:write"], &["*"], false),
        ];
        for (own, other, covered) in table {
            let (own, other) = (Scopes::parse(own).unwrap(), Scopes::parse(other).unwrap());
            assert_eq!(own.cover(&other), covered, "{own:?} {other:?}");
        }
    }

    #[test]
    fn scopes_are_validated_and_duplicates_dropped() {
        let unknown = |scope: &str| Err(ScopeError::Unknown(scope.to_owned()));
        assert_eq!(Scopes::parse([""; 0]), Err(ScopeError::Empty));
        for scope in [
            "",
            "organization",
            "organization:admin",
            "nothing:read",
            "*:read",
            "a:b:c",
        ] {
            assert_eq!(Scopes::parse([scope]), unknown(scope));
        }
        let scopes = Scopes::parse(["role:read", " plugin:write ", "role:read"]).unwrap();
        assert_eq!(scopes.as_slice(), ["role:read", "plugin:write"]);
    }
}
