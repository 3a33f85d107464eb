//! Build script that lists the files which `scripts/pack.mjs` has put into `bundle`, for the crate
//! to hold. Without them the program builds all the same, and answers that it has no console.

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

/// Renders the manifest as Rust: a name and the start of a hash a line.
fn list(bundle: &Path, manifest: &str) -> String {
    let mut list = "const FILES: &[File] = &[\n".to_owned();
    for (name, hash) in manifest.lines().filter_map(|line| line.split_once('\t')) {
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
