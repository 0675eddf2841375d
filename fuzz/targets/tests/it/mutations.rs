//! Mutates the corpora without a fuzzer: a fixed number of mutations of each file, which are always
//! the same.
//!
//! `XDS_FUZZ_SECONDS=300` mutates for this time per target, `XDS_FUZZ_SEED` selects other
//! mutations, and `XDS_FUZZ_TARGET` selects one target. A failing input is printed in hexadecimal.
//! Add it to the corpus as `found-..`.

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
    time::{Duration, Instant},
};

use xds_fuzz_targets::{TARGETS, Target};

/// Number of mutations per target.
const TRIES: u64 = 400;

/// Maximum length of an input in bytes.
const LONGEST: usize = 4_096;

/// SplitMix generator of Steele, Lea and Flood: small, and good enough for mutations.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let entries = fs::read_dir(folder).expect("each target has a corpus");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a file of the checkout").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("a file of the checkout")).collect()
}

fn mutated(files: &[Vec<u8>], random: &mut SplitMix) -> Vec<u8> {
    let mut bytes = files[random.below(files.len())].clone();
    if random.below(16) == 0 {
        bytes = (0..random.below(512)).map(|_| random.byte()).collect();
    }
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(24)).min(bytes.len());
        match random.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.byte(),
            2 => bytes.insert(at, random.byte()),
            3 if !bytes.is_empty() => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 if !bytes.is_empty() => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => {
                let other = &files[random.below(files.len())];
                let from = random.below(other.len());
                drop(bytes.splice(at.., other[from.min(other.len())..].to_vec()));
            }
        }
    }
    bytes.truncate(LONGEST);
    bytes
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.trim().parse().ok()
}

fn try_out((name, act): Target) -> u64 {
    let files = corpus(name);
    let until =
        number("XDS_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = SplitMix(number("XDS_FUZZ_SEED").unwrap_or_default());
    let mut tries = 0;
    while until.map_or(tries < TRIES, |until| Instant::now() < until) {
        tries += 1;
        let bytes = mutated(&files, &mut random);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| act(&bytes))) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            println!("{name}, try {tries}: {hex}");
            resume_unwind(panic);
        }
    }
    tries
}

#[test]
fn no_mutation_of_a_corpus_input_breaks_a_rule() {
    let only = env::var("XDS_FUZZ_TARGET").ok();
    for target in TARGETS {
        if only.as_deref().is_none_or(|only| only == target.0) {
            println!("{}: {} inputs", target.0, try_out(target));
        }
    }
}
