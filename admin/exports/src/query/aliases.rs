//! Size of a query with its aliases expanded.
//!
//! ClickHouse may put an alias's expression wherever its name is, so that twenty short columns,
//! each twice the one before, are a tree of a million nodes, which is built before any limit on
//! time or memory is checked.

use super::error::{QueryError, refused};
use std::collections::HashMap;

/// Nodes of a query at most, with its aliases expanded.
const NODES_MAX: u64 = 20_000;

/// Expression of a query, with its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SizedExpression {
    /// Alias of the expression.
    pub(super) alias: Option<String>,
    /// Nodes of the expression itself.
    pub(super) nodes: u64,
    /// Names in the expression, as often as they occur.
    pub(super) names: Vec<String>,
}

/// Refuses queries that are too large, or whose aliases are cyclic or duplicate.
pub(super) fn check(parts: &[SizedExpression]) -> Result<(), QueryError> {
    let mut by_alias = HashMap::new();
    for part in parts {
        if let Some(alias) = &part.alias
            && by_alias.insert(alias.as_str(), part).is_some()
        {
            return Err(refused(&format!("two columns with the name {alias}")));
        }
    }
    let mut sizes = Sizes {
        by_alias,
        known: HashMap::new(),
    };
    let mut all = 0_u64;
    for part in parts {
        all = all.saturating_add(sizes.of(part)?);
    }
    if all > NODES_MAX {
        return Err(refused(
            "aliases of aliases, long patterns, or repetitions in patterns (\"{300}\"), that make it so large",
        ));
    }
    Ok(())
}

struct Sizes<'a> {
    by_alias: HashMap<&'a str, &'a SizedExpression>,
    /// Sizes by alias; `None` while one is being computed.
    known: HashMap<&'a str, Option<u64>>,
}

impl<'a> Sizes<'a> {
    fn of(&mut self, part: &'a SizedExpression) -> Result<u64, QueryError> {
        let mut size = part.nodes;
        for name in &part.names {
            // Within its own expression an alias is the column that it hides.
            if part.alias.as_ref() != Some(name) {
                size = size.saturating_add(self.of_alias(name)?);
            }
        }
        Ok(size)
    }

    fn of_alias(&mut self, name: &'a str) -> Result<u64, QueryError> {
        match self.known.get(name) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(refused("aliases that stand for each other")),
            None => {}
        }
        let Some(part) = self.by_alias.get(name).copied() else {
            return Ok(0);
        };
        self.known.insert(name, None);
        let size = self.of(part)?;
        self.known.insert(name, Some(size));
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(alias: &str, names: &[&str]) -> SizedExpression {
        SizedExpression {
            alias: (!alias.is_empty()).then(|| alias.to_owned()),
            nodes: names.len() as u64 + 1,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn aliases_are_counted_as_often_as_they_are_used() {
        let doubling = |depth: usize| {
            let names: Vec<String> = (0..=depth).map(|n| format!("a{n}")).collect();
            let pairs = names.windows(2);
            let parts: Vec<SizedExpression> = pairs
                .map(|pair| part(&pair[1], &[&pair[0], &pair[0]]))
                .collect();
            check(&parts).is_ok()
        };
        assert!(doubling(10));
        assert!(!doubling(15));
        assert!(!doubling(400));
    }

    #[test]
    fn an_alias_may_hide_its_own_column_but_aliases_may_not_be_cyclic() {
        let table = [
            (vec![part("event", &["event"])], true),
            (vec![part("a", &["event"]), part("", &["a"])], true),
            (vec![part("a", &["b"]), part("b", &["a"])], false),
            (
                vec![part("a", &["b"]), part("b", &["c"]), part("c", &["a"])],
                false,
            ),
            (vec![part("a", &[]), part("a", &[])], false),
        ];
        for (parts, expected) in table {
            assert_eq!(check(&parts).is_ok(), expected, "{parts:?}");
        }
    }
}
