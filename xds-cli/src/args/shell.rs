//! Arguments of `xds completions` and `xds man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Print the completions of a shell.
///
/// For bash: `xds completions bash > ~/.local/share/bash-completion/completions/xds`. For zsh: write
/// a file `_xds` into a directory of `$fpath`. For fish:
/// `xds completions fish > ~/.config/fish/completions/xds.fish`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Write the manual pages.
///
/// With DIR, one page for each command is written: xds.1, xds-serve.1, xds-sim-run.1 and so on.
/// Without it, the page of `xds` is printed: `xds man | man -l -`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Directory for the pages, such as /usr/local/share/man/man1. It is created if it does not
    /// exist.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}
