//! Bundle of posthog-js as pages load it: the files of the npm package that is pinned in
//! `package.json`, each as it is and compressed ahead, built into the program. Files that are never
//! requested cost no memory: the system reads the pages of a program when they are needed.
//!
//! `make build` fetches the package and packs it (`pack.mjs`). Without that the crate builds, and
//! holds no file.

#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Name of the licence among the files.
pub const LICENSE: &str = "LICENSE.txt";

/// File of the package.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Name of the file, such as `array.js`.
    pub name: &'static str,
    /// Start of the SHA-256 of its content, in hexadecimal.
    pub hash: &'static str,
    /// Content of the file.
    pub plain: &'static [u8],
    /// Content in gzip.
    pub gzip: &'static [u8],
    /// Content in brotli.
    pub brotli: &'static [u8],
}

/// Version of posthog-js; `None` where it was not fetched before the build.
#[must_use]
pub const fn version() -> Option<&'static str> {
    VERSION
}

/// Finds a file by its name.
#[must_use]
pub fn file(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}
