//! Runs every protocol script in `scripts/` as a test, and compares the output with the script.
//! The format is described in `scripts/README.md`, whose index is checked as well.
//!
//! `UPDATE=1 cargo test -p xds-tests --test scripts` writes the output into the scripts. Review the
//! difference like any other change.
//!
//! With `--show-output`, the ids that each script covers are printed as if by a
//! test, for `cargo xtask coverage`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use libtest_mimic::{Arguments, Failed, Trial};

/// Ids that passed scripts cover, by the name of the script.
type Covered = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

fn main() {
    let arguments = Arguments::from_args();
    let covered = Covered::default();
    let known = Arc::new(known_ids());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut trials: Vec<Trial> = scripts(&folder)
        .into_iter()
        .map(|path| {
            let name = name_of(&path, &folder);
            let (covered, known) = (Covered::clone(&covered), Arc::clone(&known));
            Trial::test(name.clone(), move || {
                let ids = carry_out(&path)?;
                if let Some(id) = ids.iter().find(|&id| !known.contains(id)) {
                    return Err(format!("{id} is not in coverage/catalogue/").into());
                }
                covered.lock().unwrap_or_else(PoisonError::into_inner).insert(name, ids);
                Ok(())
            })
        })
        .collect();
    trials.push(Trial::test("README.md", move || check_index(&folder)));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if arguments.show_output {
        show_output(&covered.lock().unwrap_or_else(PoisonError::into_inner));
    }
    conclusion.exit();
}

/// Returns the ids that a script may cover: the first words of the lines with sources.
fn known_ids() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("coverage/catalogue");
    let mut ids = BTreeSet::new();
    for path in scripts(&folder) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let rules = text.lines().filter(|line| line.ends_with(']') && !line.starts_with(' '));
        ids.extend(rules.filter_map(|line| line.split(' ').next()).map(str::to_owned));
    }
    ids
}

/// Prints the ids in the format of the standard test harness.
fn show_output(covered: &BTreeMap<String, Vec<String>>) {
    println!("\nsuccesses:\n");
    for (name, ids) in covered {
        println!("---- {name} stdout ----\ncovers: {}\n", ids.join(" "));
    }
}

/// Returns the text files below a folder, sorted.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .flat_map(|path| if path.is_dir() { scripts(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    found.sort();
    found
}

/// Path of a script below the folder of scripts.
fn name_of(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

/// Checks that the index in `README.md` lists every script with the ids that it covers, and no
/// other script.
fn check_index(folder: &Path) -> Result<(), Failed> {
    let index = fs::read_to_string(folder.join("README.md"))?;
    let scripts = scripts(folder);
    for path in &scripts {
        let name = name_of(path, folder);
        let link = format!("]({name})");
        let Some(row) = index.lines().find(|line| line.contains(&link)) else {
            return Err(format!("README.md does not list {name}").into());
        };
        let listed = row.split('|').nth(2).unwrap_or_default();
        let listed: BTreeSet<&str> = listed.split_whitespace().collect();
        let script = fs::read_to_string(path)?;
        let ids = script.lines().filter_map(|line| line.strip_prefix("covers:"));
        let ids: BTreeSet<&str> = ids.flat_map(str::split_whitespace).collect();
        if listed != ids {
            return Err(format!("README.md lists other ids for {name} than its `covers:`").into());
        }
    }
    match index.matches(".txt)").count() == scripts.len() {
        true => Ok(()),
        false => Err("README.md lists a script twice, or one that does not exist".into()),
    }
}

/// Runs a script. Returns the ids that it covers.
fn carry_out(path: &Path) -> Result<Vec<String>, Failed> {
    let expected = fs::read_to_string(path)?;
    let outcome = xds_sim::script::run(&expected)?;
    if outcome.covers.is_empty() {
        return Err("the script covers nothing: add a `covers:` line".into());
    }
    if outcome.text == expected {
        return Ok(outcome.covers);
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(path, outcome.text)?;
        return Ok(outcome.covers);
    }
    Err(difference(&expected, &outcome.text).into())
}

/// Returns the first lines that differ, with the lines before them.
fn difference(expected: &str, printed: &str) -> String {
    let (expected, printed): (Vec<_>, Vec<_>) =
        (expected.lines().collect(), printed.lines().collect());
    let same = expected.iter().zip(&printed).take_while(|(left, right)| left == right).count();
    let show = |lines: &[&str], mark: char| -> String {
        lines.iter().skip(same).take(8).map(|line| format!("  {mark} {line}\n")).collect()
    };
    let context: String =
        expected[same.saturating_sub(6)..same].iter().map(|line| format!("    {line}\n")).collect();
    format!(
        "line {} differs (- expected, + printed):\n{context}{}{}",
        same + 1,
        show(&expected, '-'),
        show(&printed, '+'),
    )
}
