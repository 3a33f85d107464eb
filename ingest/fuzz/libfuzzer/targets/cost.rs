//! libFuzzer entry point of [`millrace_fuzz::cost`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::cost(data));
