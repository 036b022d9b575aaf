//! Lease tokens and handovers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tenure::fuzzing::token(bytes));
