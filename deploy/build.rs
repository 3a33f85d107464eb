//! How the program is linked.

use std::process::Command;

/// The first glibc that starts programs whose relocations are packed.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if glibc().is_some_and(|version| version >= PACKED_SINCE) {
        // The loader reads all of them at each start, and they stay in memory: 3.6 MiB; packed 0.05.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Of this machine, where it is what is built for.
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
