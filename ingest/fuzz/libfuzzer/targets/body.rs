//! libFuzzer entry point of [`millrace_fuzz::body`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::body(data));
