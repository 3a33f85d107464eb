//! `millrace man`: manual pages of all commands. The page of the program explains the settings.

use crate::output;
use crate::setting_args::with_local_settings;
use anyhow::Context;
use clap::{Args, Command};
use std::path::{Path, PathBuf};

/// Arguments of `millrace man`.
#[derive(Args, Clone, Debug)]
pub struct Man {
    /// Folder to write to, created if it does not exist, as in ./man1
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Writes a page for each command, as `millrace-keys-create.1`.
///
/// # Errors
/// When the folder cannot be written.
pub(super) fn run(program: Command, arguments: &Man) -> anyhow::Result<()> {
    let dir = arguments.to.as_path();
    write_to(program, dir).with_context(|| {
        format!(
            "cannot write manual pages to {}; give another folder with --to",
            dir.display()
        )
    })?;
    output::print(&format!(
        "The manual pages are in {}; `man -l {}` shows the first.",
        dir.display(),
        dir.join("millrace.1").display()
    ));
    Ok(())
}

fn write_to(program: Command, dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(with_local_settings(program), dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use tempfile::TempDir;

    #[test]
    fn each_command_has_a_page_and_the_first_one_has_the_settings() {
        let dir = TempDir::new().unwrap();
        write_to(cli::command(), dir.path()).unwrap();
        let page = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        // A hyphen of roff has a backslash before it.
        let table = [
            ("millrace.1", "ingest\\-addr", true),
            ("millrace.1", "MILLRACE_INGEST_ADDR", true),
            ("millrace-keys-create.1", "scopes", true),
            ("millrace-keys-create.1", "data\\-dir", true),
            ("millrace-keys-create.1", "ingest\\-addr", false),
            ("millrace-serve.1", "Run everything", true),
        ];
        for (name, text, is_there) in table {
            assert_eq!(page(name).contains(text), is_there, "{name}: {text}");
        }
    }
}
