//! Plan of a block's property columns: the paths to look for, by project.

use millrace_rows::{ProjectId, PropertyColumn};
use std::collections::HashMap;

/// Most columns of a project's rows, those of all projects included: there is a bit for each key of
/// an object. Others are not filled here: ClickHouse computes them.
const COLUMNS_MAX: usize = u64::BITS as usize;

/// Property columns to fill, arranged by project.
#[derive(Clone, Debug, Default)]
pub struct PropertyPlan {
    columns: Vec<PropertyColumn>,
    /// Paths of projects that named none.
    shared: PathTree,
    /// Paths of the others by the project's id, with those of all projects.
    projects: HashMap<i64, PathTree>,
}

/// Paths to look for in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct PathTree {
    pub(super) keys: Keys,
    /// Indexes of the columns at the ends of the paths.
    pub(super) columns: Vec<usize>,
}

/// Keys to look for in one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    all: Vec<Key>,
    /// Bits of the lengths of keys: most keys of an object are known to be others by theirs.
    lengths: u64,
}

/// Key to look for.
#[derive(Clone, Debug)]
pub(super) struct Key {
    name: Vec<u8>,
    /// Columns of the value.
    pub(super) columns: Vec<usize>,
    /// Keys to look for in the value.
    pub(super) below: Keys,
}

impl PropertyPlan {
    /// Arranges columns.
    #[must_use]
    pub fn new(columns: Vec<PropertyColumn>) -> Self {
        let mut plan = Self::default();
        let columns = columns.into_iter().filter(|it| !it.path.is_empty());
        let (shared, own): (Vec<_>, Vec<_>) = columns.partition(|it| it.team_id.is_none());
        for column in shared.into_iter().take(COLUMNS_MAX) {
            plan.shared.add(&column.path, plan.columns.len());
            plan.columns.push(column);
        }
        for column in own {
            let Some(ProjectId(team_id)) = column.team_id else {
                continue;
            };
            let shared = &plan.shared;
            let tree = plan.projects.entry(team_id);
            let tree = tree.or_insert_with(|| shared.clone());
            if tree.columns.len() < COLUMNS_MAX {
                tree.add(&column.path, plan.columns.len());
                plan.columns.push(column);
            }
        }
        plan
    }

    /// Returns true if there is no column to fill.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Columns to fill, at their indexes.
    pub(super) fn columns(&self) -> &[PropertyColumn] {
        &self.columns
    }

    /// Paths to look for in the rows of a project.
    #[inline]
    pub(super) fn tree(&self, team_id: i64) -> &PathTree {
        self.projects.get(&team_id).unwrap_or(&self.shared)
    }
}

impl PathTree {
    fn add(&mut self, path: &[String], column: usize) {
        self.keys.add(path, column);
        self.columns.push(column);
    }
}

impl Keys {
    fn add(&mut self, path: &[String], column: usize) {
        let Some((name, rest)) = path.split_first() else {
            return;
        };
        let name = name.as_bytes();
        let known = self.all.iter().position(|key| key.name == name);
        let place = known.unwrap_or(self.all.len());
        if known.is_none() {
            self.lengths |= length_bit(name);
            self.all.push(Key {
                name: name.to_vec(),
                columns: Vec::new(),
                below: Self::default(),
            });
        }
        if let Some(key) = self.all.get_mut(place) {
            match rest.is_empty() {
                true => key.columns.push(column),
                false => key.below.add(rest, column),
            }
        }
    }

    /// Number of the keys.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if nothing is looked for.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Finds a key, and its place among the keys.
    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<(usize, &Key)> {
        if self.lengths & length_bit(name) == 0 {
            return None;
        }
        let mut keys = self.all.iter().enumerate();
        keys.find(|(_, key)| key.name == name)
    }
}

#[inline]
const fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}
