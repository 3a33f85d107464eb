//! Build script: linker options, and the list of crates for log filters.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// First glibc that starts programs with packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    write_crates()?;
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
