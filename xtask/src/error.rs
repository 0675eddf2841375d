//! Errors of the commands, as shown to the user.

use std::io;
use std::path::PathBuf;

use crate::tree::Difference;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("unknown command `{given}`")]
    Usage { given: String },

    #[error("the schema under proto/ does not compile: {0}")]
    Schema(#[from] protox::Error),

    #[error("the schema under proto/ has no option `{name}`")]
    Annotation { name: String },

    #[error("code generation failed: {0}")]
    Generate(#[source] io::Error),

    #[error("cannot read or write {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },

    #[error(
        "{} differ from what proto/ generates; run `cargo xtask gen` and commit the result{}",
        crate::codegen::OUTPUTS,
        differences.iter().map(|difference| format!("\n  {difference}")).collect::<String>()
    )]
    Stale { differences: Vec<Difference> },

    #[error("the tests do not build")]
    Build,

    #[error("{path}, line {line}: {why}")]
    Line { path: &'static str, line: usize, why: String },

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
}
