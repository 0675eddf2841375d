//! Files with the timeline and the report of a failed run.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::environment::name_of_test;
use crate::trace::Trace;

/// Writes the timeline and the report of a failed run, named after the test. Returns a line that
/// names the files, or why they could not be written.
///
/// They are written to the directory `XDS_SIM_HTML`, and otherwise to `xds-sim` in the target
/// directory of the test. Nothing is written for other programs.
pub(crate) fn write(trace: &Trace, text: &str) -> Option<String> {
    let chosen = env::var_os("XDS_SIM_HTML").filter(|it| !it.is_empty()).map(PathBuf::from);
    let (folder, name) = match (chosen, name_of_test()) {
        (Some(folder), name) => (folder, name.unwrap_or_else(|| "failed-run".into())),
        (None, Some(name)) => (of_target(&env::current_exe().ok()?)?, name),
        (None, None) => return None,
    };
    Some(match write_to(&folder, &name, trace, text) {
        Ok([html, text]) => format!("files: {}, {}", html.display(), text.display()),
        Err(error) => format!("files: cannot write to {}: {error}", folder.display()),
    })
}

fn write_to(folder: &Path, name: &str, trace: &Trace, text: &str) -> std::io::Result<[PathBuf; 2]> {
    let name: String = name.chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).collect();
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    fs::create_dir_all(folder)?;
    fs::write(file("html"), trace.to_html())?;
    fs::write(file("txt"), text)?;
    Ok([file("html"), file("txt")])
}

/// Returns the directory in the target directory of a test, whose program is in `deps`.
fn of_target(program: &Path) -> Option<PathBuf> {
    let deps =
        program.parent().filter(|parent| parent.file_name().is_some_and(|it| it == "deps"))?;
    Some(deps.parent()?.parent()?.join("xds-sim"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_to_the_target_directory_of_tests_only() {
        let test = Path::new("/home/target/debug/deps/stack-0123");
        assert_eq!(of_target(test), Some("/home/target/xds-sim".into()));
        assert_eq!(of_target(Path::new("/home/target/debug/xds")), None);
    }
}
