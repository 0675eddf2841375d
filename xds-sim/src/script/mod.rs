//! Protocol scenarios as text files.
//!
//! A script is a list of blocks. A block has commands, a line of dashes, and the output of the
//! commands; an empty line ends it. Lines that start with `#` are comments. A line that starts with
//! `covers:` lists the requirements that the script tests. For example:
//!
//! ```text
//! # A response is delivered and acknowledged.
//! covers: SB-06
//!
//! watch w lds foo
//! ----
//! client opens c0 to sim
//! c0 -> (V=,R={foo},N=,T=lds) node=test
//!
//! respond lds v=1 n=A foo=hello
//! ----
//! c0 <- (V=1,R={foo=hello},N=A,T=lds)
//! w: foo=hello version 1
//! c0 -> (V=1,R={foo},N=A,T=lds)
//! ```
//!
//! [`run`] executes a script and returns it with the actual output. A test compares the two texts.
//! For an intended change of behaviour, the new text replaces the old one and is reviewed like
//! code.
//!
//! [`command`] lists the commands, and [`response`] the contents of a scripted server's responses.

pub mod command;
mod in_flight;
mod options;
pub mod pair;
pub mod response;
mod state;
pub mod update;
mod watchers;

use thiserror::Error;

use self::state::ScriptState;

/// A script after execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOutput {
    /// Script with the actual output.
    pub text: String,
    /// Identifiers from its `covers:` lines.
    pub covers: Vec<String>,
}

/// Error for a script that cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {why}")]
pub struct ScriptError {
    /// Line number, starting at one.
    pub line: usize,
    /// Description of the fault.
    pub why: String,
}

/// Executes a script.
///
/// # Errors
///
/// Returns an error if a line is not a command, or a command is invalid in its position.
pub fn run(script: &str) -> Result<ScriptOutput, ScriptError> {
    let mut outcome = ScriptOutput { text: String::new(), covers: Vec::new() };
    let mut state = ScriptState::default();
    let mut lines = script.lines().enumerate().peekable();
    let mut has_commands = false;
    while let Some((number, line)) = lines.next() {
        outcome.text.push_str(line);
        outcome.text.push('\n');
        if let Some(ids) = line.strip_prefix("covers:") {
            outcome.covers.extend(ids.split_whitespace().map(str::to_owned));
        } else if line == SEPARATOR {
            for event in state.take_output() {
                outcome.text.push_str(&event);
                outcome.text.push('\n');
            }
            while lines.next_if(|(_, line)| !line.trim().is_empty()).is_some() {}
            has_commands = false;
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            has_commands = true;
            command::parse(line)
                .and_then(|command| state.perform(command))
                .map_err(|why| ScriptError { line: number + 1, why })?;
        }
    }
    if has_commands {
        let line = script.lines().count();
        return Err(ScriptError {
            line,
            why: "the last commands are not followed by a line of dashes".into(),
        });
    }
    Ok(outcome)
}

const SEPARATOR: &str = "----";
