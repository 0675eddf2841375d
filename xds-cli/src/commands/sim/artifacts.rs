//! Files about a failed run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use xds_sim::Failure as Broken;

use crate::{failure::Failure, output};

/// Creates the directory for the files.
///
/// It is called before the runs: a directory that cannot be written would otherwise be noticed hours
/// later.
pub(super) fn prepare(folder: &Path) -> Result<(), Failure> {
    let probe = folder.join(".xds-sim");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe))
        .map_err(|why| Failure::Artifact { file: folder.to_path_buf(), why })
}

/// Writes a file and prints its name.
pub(super) fn write_file(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|why| Failure::Artifact { file: file.to_path_buf(), why })?;
    output::print(&format!("written: {}", file.display()))
}

/// Writes the files of the smallest run, and the timeline of the original run.
///
/// The names of the files contain the violated rule and the seed.
pub(super) fn write(
    folder: &Path,
    broken: &Broken,
    smallest: &Broken,
    tries: usize,
) -> Result<Vec<PathBuf>, Failure> {
    let name = smallest.test_name();
    let files = [
        (format!("{name}.html"), smallest.trace.to_html()),
        (format!("{name}.ndjson"), smallest.trace.to_ndjson()),
        (format!("{name}.txt"), smallest.to_text(Some((broken, tries)))),
        (format!("{name}.rs"), smallest.to_test()),
        (format!("{name}-whole.html"), broken.trace.to_html()),
    ];
    let write_one = |(name, text): (String, String)| {
        let file = folder.join(name);
        match fs::write(&file, text) {
            Ok(()) => Ok(file),
            Err(why) => Err(Failure::Artifact { file, why }),
        }
    };
    files.into_iter().map(write_one).collect()
}

#[cfg(test)]
mod tests {
    use xds_sim::{Config, run_seed};

    use super::*;

    #[test]
    fn failure_artifacts_are_named_after_the_rule_and_seed() {
        let config = Config::new(|world| world.fail("MINE", "It must not begin.", "it began"));
        let broken = run_seed(5, &config).violation.expect("it always fails");
        let folder = std::env::temp_dir().join(format!("xds-artifacts-{}", std::process::id()));
        prepare(&folder).expect("the folder can be created");
        let files = write(&folder, &broken, &broken, 3).expect("the folder can be written");
        let starts = [
            "<!doctype html>",
            "{\"event\":\"run\"",
            "seed 5 ",
            "//! Regression test: It must",
            "<!doctype html>",
        ];
        for (file, start) in files.iter().zip(starts) {
            assert!(file.display().to_string().contains("mine_seed_5"), "{file:?}");
            assert!(fs::read_to_string(file).unwrap().starts_with(start), "{file:?}");
        }
        assert_eq!(files.len(), starts.len());
        let _ = fs::remove_dir_all(folder);
    }
}
