//! Node records.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tenure_core::trust::fuzzing::record(bytes));
