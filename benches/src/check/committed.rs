//! The committed instruction counts.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const HEADER: &str = "\
# Instructions of one round by callgrind: x86-64 without AVX-512, which valgrind lacks.
# `make bench-check` compares with these; `make bench-check UPDATE=1` writes them anew.
";

/// Instructions of one round by case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Instructions of one round, by the case's name.
    pub instructions: BTreeMap<String, u64>,
}

impl Committed {
    /// Reads the file.
    ///
    /// # Errors
    /// The file is missing, or is not a list of counts.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a list of counts", path.display()))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).context("counts")?;
        std::fs::write(path, format!("{HEADER}\n{text}"))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Case;

    #[test]
    fn written_counts_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("instructions.toml");
        let counts = Committed {
            instructions: [("parse/998B_x250".to_owned(), 12_345)].into(),
        };
        counts.write(&path).unwrap();
        assert_eq!(Committed::read(&path).unwrap(), counts);
        assert!(Committed::read(&dir.path().join("nothing")).is_err());
    }

    #[test]
    fn every_case_has_a_committed_count_and_every_count_a_case() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml");
        let committed = Committed::read(&path).unwrap();
        let mut names: Vec<_> = Case::all().map(|case| case.name).collect();
        names.sort_unstable();
        assert!(committed.instructions.keys().eq(names.iter()));
    }
}
