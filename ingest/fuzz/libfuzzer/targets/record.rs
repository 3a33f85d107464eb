//! libFuzzer entry point of [`millrace_fuzz::record`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::record(data));
