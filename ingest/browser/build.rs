//! Build script that lists the files which `pack.mjs` has put into `bundle`, for the crate to hold.
//! Without them the program builds all the same, and answers that it has no bundle.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=bundle");
    let variable = |name: &str| PathBuf::from(std::env::var_os(name).unwrap_or_default());
    let bundle = variable("CARGO_MANIFEST_DIR").join("bundle");
    let manifest = std::fs::read_to_string(bundle.join("manifest.tsv")).unwrap_or_default();
    let written = std::fs::write(
        variable("OUT_DIR").join("files.rs"),
        list(&bundle, &manifest),
    );
    if let Err(error) = written {
        println!("cargo::error=cannot write the list of files: {error}");
    }
}

/// Renders the manifest as Rust: the version in its first line, then a name and the start of a hash
/// a line.
fn list(bundle: &Path, manifest: &str) -> String {
    let mut lines = manifest.lines();
    let version = lines.next();
    let mut list =
        format!("const VERSION: Option<&str> = {version:?};\nconst FILES: &[File] = &[\n");
    for (name, hash) in lines.filter_map(|line| line.split_once('\t')) {
        let include = |suffix: &str| {
            format!(
                "include_bytes!({:?})",
                bundle.join(name.to_owned() + suffix)
            )
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            list,
            "    File {{ name: {name:?}, hash: {hash:?}, plain: {}, gzip: {}, brotli: {} }},",
            include(""),
            include(".gz"),
            include(".br"),
        );
    }
    list + "];\n"
}
