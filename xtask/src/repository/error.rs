//! Errors of the commands, as shown to the user.

use std::io;
use std::path::PathBuf;

use super::tree::Difference;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("unknown command `{given}`")]
    Usage { given: String },

    #[error("the schema under proto/ does not compile: {0}")]
    Schema(#[from] protox::Error),

    #[error("the schema under proto/ does not define the option `{name}`")]
    Annotation { name: String },

    #[error("code generation failed: {0}")]
    Generate(#[source] io::Error),

    #[error("cannot read or write {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },

    #[error(
        "{outputs} differ from what proto/ generates; run `cargo xtask gen` and commit the result{}",
        differences.iter().map(|difference| format!("\n  {difference}")).collect::<String>()
    )]
    Stale { outputs: &'static str, differences: Vec<Difference> },

    #[error("the tests do not build")]
    Build,

    #[error("{path}, line {line}: {why}")]
    Line { path: String, line: usize, why: String },

    #[error(
        "coverage{}",
        findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>()
    )]
    Coverage { findings: Vec<String> },

    #[error(
        "mutants{}",
        findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>()
    )]
    Mutants { findings: Vec<String> },

    #[error(
        "sizes{}",
        findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>()
    )]
    Sizes { findings: Vec<String> },

    #[error(
        "crates{}",
        findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>()
    )]
    Crates { findings: Vec<String> },

    #[error("{id} is not in the catalogue{}", did_you_mean(near))]
    Rule { id: String, near: Vec<String> },

    #[error(
        "structure{}",
        findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>()
    )]
    Structure { findings: Vec<String> },

    #[error(
        "language{}",
        findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>()
    )]
    Language { findings: Vec<String> },

    #[error(
        "links{}",
        findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>()
    )]
    Links { findings: Vec<String> },
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}
