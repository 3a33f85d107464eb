//! libFuzzer entry point of [`millrace_fuzz::recovery`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::recovery(data));
