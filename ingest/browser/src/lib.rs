//! posthog-js as pages load it: the files of the npm package that is pinned in `package.json`, each as it
//! is and compressed ahead, built into the program. Whoever asks for none costs no memory: the system reads
//! the pages of a program when they are needed.
//!
//! `make build` fetches the package and packs it (`pack.mjs`). Without that the crate builds, and holds no
//! file.

#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The name of the licence among the files.
pub const LICENSE: &str = "LICENSE.txt";

/// A file of the package.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its name, as in `array.js`.
    pub name: &'static str,
    /// The start of the SHA-256 of its content, in hexadecimal.
    pub hash: &'static str,
    /// Its content.
    pub plain: &'static [u8],
    /// Its content in gzip.
    pub gzip: &'static [u8],
    /// Its content in brotli.
    pub brotli: &'static [u8],
}

/// The version of posthog-js; none where it was not fetched before the build.
#[must_use]
pub const fn version() -> Option<&'static str> {
    VERSION
}

/// Finds a file by its name.
#[must_use]
pub fn file(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}
