//! Commands with which the reader of the demo goes on.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Returns the commands for two terminals. They can be run as they stand in the working directory.
pub(super) fn commands() -> String {
    let is_there = |path: &str| Path::new(path).exists();
    let has_examples = is_there("examples/config");
    let is_workspace = has_examples && is_there("xds-cli/Cargo.toml");
    let executable = env::current_exe().unwrap_or_else(|_| PathBuf::from("xds"));
    let search = env::var_os("PATH").unwrap_or_default();
    let is_found =
        executable.parent().is_some_and(|it| env::split_paths(&search).any(|at| at == it));
    let xds = command(&executable, is_workspace, is_found);
    lines(&xds, has_examples)
}

/// Returns the words that run `xds`: through cargo if cargo built it in the current workspace.
fn command(executable: &Path, is_workspace: bool, is_found: bool) -> String {
    let is_built = executable.components().any(|it| it.as_os_str() == "target");
    match (is_built && is_workspace, is_found) {
        (true, _) => "cargo run -q -p xds-cli --".to_owned(),
        (false, true) => "xds".to_owned(),
        (false, false) => format!("'{}'", executable.display()),
    }
}

fn lines(xds: &str, has_examples: bool) -> String {
    const LISTEN: &str = "127.0.0.1:18000";
    match has_examples {
        true => format!(
            "  {xds} serve examples/config --listen {LISTEN}\n  \
             {xds} watch --server {LISTEN} lds cds eds:api"
        ),
        // Without the examples of the repository, the first command creates a file to serve.
        false => format!(
            "  mkdir -p xds-try && echo '{{\"@type\": \"type.googleapis.com/\
             envoy.config.cluster.v3.Cluster\", \"name\": \"shop\"}}' > xds-try/cds.json\n  \
             {xds} serve xds-try --listen {LISTEN}\n  \
             {xds} watch --server {LISTEN} cds"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_depends_on_the_path_of_the_executable() {
        let built = Path::new("/src/xds/target/debug/xds");
        let installed = Path::new("/usr/bin/xds");
        assert_eq!(command(built, true, false), "cargo run -q -p xds-cli --");
        assert_eq!(command(built, false, false), "'/src/xds/target/debug/xds'");
        assert_eq!(command(installed, true, true), "xds");
        assert_eq!(command(installed, false, false), "'/usr/bin/xds'");
    }

    #[test]
    fn commands_need_no_files_of_the_repository() {
        assert!(lines("xds", true).contains("xds serve examples/config "));
        let own = lines("xds", false);
        assert!(own.contains("> xds-try/cds.json") && own.contains("xds serve xds-try "), "{own}");
    }
}
