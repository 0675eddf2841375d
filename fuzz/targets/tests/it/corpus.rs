//! Replays the corpora without a fuzzer.
//!
//! `UPDATE=1` writes the seeds of `seeds/mod.rs` to the corpora. Files with other names were found
//! by fuzzers, or increase their coverage.

use std::{env, fs, path::PathBuf};

use xds_fuzz_targets::TARGETS;
use xds_sim::{Config, Tape, options::Transport, replay};

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target)
}

#[test]
fn seed_files_equal_the_generated_seeds() {
    for (target, name, bytes) in crate::seeds::all() {
        let file = corpus(target).join(name);
        if env::var_os("UPDATE").is_some() {
            fs::create_dir_all(corpus(target)).expect("the checkout can be written");
            fs::write(&file, &bytes).expect("the checkout can be written");
        }
        let there = fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        assert_eq!(there, bytes, "UPDATE=1 renews {}", file.display());
    }
}

/// Seeds named after a transport must use it, even if earlier choices change.
#[test]
fn transport_seeds_use_their_transport() {
    for (name, transport) in [("seed-polls", Transport::Polls), ("seed-files", Transport::Files)] {
        let bytes = fs::read(corpus("world").join(name)).expect("a file of the checkout");
        let outcome = replay(&Tape::from_bytes(&bytes), &Config::default());
        assert_eq!(outcome.options.transport, transport, "{name}");
    }
}

#[test]
fn every_corpus_file_passes() {
    for (target, act) in TARGETS {
        let folder = corpus(target);
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.expect("a file of the checkout").path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{target} has no corpus");
        for file in files {
            println!("{}", file.display());
            act(&fs::read(&file).expect("a file of the checkout"));
        }
    }
}
