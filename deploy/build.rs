//! Build script: linker options, the list of crates for log filters, and what was built of what.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// First glibc that starts programs with packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    write_crates()?;
    tell_versions()?;
    if glibc().is_some_and(|version| version >= PACKED_SINCE) {
        // The loader reads all of them at each start, and they stay in memory: 3.6 MiB; packed
        // 0.05.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Writes the names of all crates, as log lines have them, for settings that name one.
fn write_crates() -> Result<(), Box<dyn Error>> {
    const LOCK: &str = "../Cargo.lock";
    println!("cargo::rerun-if-changed={LOCK}");
    let lock = std::fs::read_to_string(LOCK)?;
    let names = lock
        .lines()
        .filter_map(|line| line.strip_prefix("name = \""));
    let names: BTreeSet<String> = names
        .map(|name| name.trim_end_matches('"').replace('-', "_"))
        .collect();
    let names = Vec::from_iter(names).join("\n");
    let dir = std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
    std::fs::write(Path::new(&dir).join("crates.txt"), names)?;
    Ok(())
}

/// Sets variables with the commit of the source and the version of the engine's package. Cargo sets
/// them for `cargo run`, too, so they must not look like settings.
fn tell_versions() -> Result<(), Box<dyn Error>> {
    const PACKAGE: &str = "embedded/package.json";
    println!("cargo::rerun-if-changed={PACKAGE}");
    let package = std::fs::read_to_string(PACKAGE)?;
    let mut lines = package.lines();
    let engine = lines.find_map(|line| line.trim().strip_prefix("\"@chdb/lib-"));
    let version = engine.and_then(|line| line.split('"').nth(2));
    let version = version.ok_or("no version of the engine in package.json")?;
    println!("cargo::rustc-env=BUILD_ENGINE_VERSION={version}");
    // A build without the repository, as of a tarball, is given it.
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    let given = std::env::var_os("BUILD_COMMIT").and_then(|commit| commit.into_string().ok());
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let commit = commit.filter(|commit| commit.chars().all(|it| it.is_ascii_alphanumeric()));
    println!(
        "cargo::rustc-env=BUILD_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
    // It changes with each commit and checkout. A missing file would be a change, too.
    if let Some(file) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&file).exists()
    {
        println!("cargo::rerun-if-changed={file}");
    }
    Ok(())
}

/// Line that git answers; `None` without git or a repository.
fn git(args: &[&str]) -> Option<String> {
    let asked = Command::new("git").args(args).output().ok()?;
    let answer = String::from_utf8(asked.stdout).ok()?;
    let line = answer.trim();
    (asked.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// Version of glibc on this machine, if the build is for it.
fn glibc() -> Option<(u32, u32)> {
    let variable = std::env::var_os;
    if variable("TARGET") != variable("HOST") || variable("CARGO_CFG_TARGET_ENV")? != "gnu" {
        return None;
    }
    let asked = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let said = String::from_utf8(asked.ok()?.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
