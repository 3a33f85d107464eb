//! libFuzzer entry point of [`millrace_fuzz::frame`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::frame(data));
