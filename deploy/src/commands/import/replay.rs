//! `millrace import load --rejects`: which file is sent again.

use anyhow::Context;
use millrace_import::files::{SourceFile, find};
use millrace_import::staging::LoadFolder;
use std::path::Path;

/// The file to replay. The import's own file of rejects is moved away first, as what is rejected again goes into a new
/// one.
pub(super) fn files(folder: &LoadFolder, rejects: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let own = folder.rejects();
    let is_own = |path: &Path| match (path.canonicalize(), own.canonicalize()) {
        (Ok(path), Ok(own)) => path == own,
        _ => false,
    };
    let mut path = rejects.to_owned();
    if is_own(rejects) {
        let free =
            (1_u32..).map(|number| own.with_file_name(format!("rejects.{number}.ndjson.gz")));
        path = free
            .into_iter()
            .find(|path| !path.exists())
            .unwrap_or_else(|| own.clone());
        std::fs::rename(&own, &path)
            .with_context(|| format!("cannot move {} to {}", own.display(), path.display()))?;
        crate::print(&format!(
            "{} is {} from now on; name that one to go on with it.",
            own.display(),
            path.display()
        ));
    }
    Ok(find(&[path.to_string_lossy().into_owned()])?)
}
