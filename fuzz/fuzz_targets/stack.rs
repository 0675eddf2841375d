#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xds_fuzz_targets::stack(bytes));
