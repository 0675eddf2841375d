//! Rust files of the checkout, read line by line. They are formatted by rustfmt, so an item ends
//! where the indentation of its first line returns.

mod code;
mod test_modules;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub(crate) use code::{comment, without_comments};
pub(crate) use test_modules::{is_test_line, without_tests};

use crate::repository::error::Error;
use crate::repository::tree::at;

/// Folders without code that people write.
const SKIPPED: [&str; 3] = ["target", "generated", "node_modules"];

/// Text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Path relative to the root, with `/` as the separator.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// File in the `src` folder of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Path relative to the root.
    pub(crate) path: String,
    /// Folder relative to `src`; `.` for `src` itself.
    pub(crate) folder: String,
    /// Path of the module, without `crate`.
    pub(crate) name: Vec<String>,
    /// Code with empty lines in place of comments and test modules.
    pub(crate) code: String,
}

/// Library or program: its modules except test modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crate {
    /// Folder of the package.
    pub(crate) name: String,
    pub(crate) modules: Vec<Module>,
}

/// Reads all files with this extension below `folder`, sorted by path.
pub(crate) fn files(root: &Path, folder: &str, extension: &str) -> Result<Vec<File>, Error> {
    let mut found = Vec::new();
    read_below(&root.join(folder), folder, extension, &mut found)?;
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

fn read_below(dir: &Path, prefix: &str, wanted: &str, found: &mut Vec<File>) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let path = entry.map_err(at(dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let relative = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                read_below(&path, &relative, wanted, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == wanted) {
            let text = fs::read_to_string(&path).map_err(at(&path))?.replace("\r\n", "\n");
            found.push(File { path: relative, text });
        }
    }
    Ok(())
}

/// Returns the crates of these files: every package with a `src` folder.
pub(crate) fn crates(files: &[File]) -> Vec<Crate> {
    let mut by_name: BTreeMap<&str, Vec<(&str, &File)>> = BTreeMap::new();
    for file in files {
        if let Some((package, path)) = file.path.split_once("/src/")
            && !["tests", "benches", "examples"]
                .iter()
                .any(|it| package.split('/').skip(1).any(|part| part == *it))
        {
            by_name.entry(package).or_default().push((path, file));
        }
    }
    by_name.into_iter().map(|(name, files)| package(name, &files)).collect()
}

fn package(name: &str, files: &[(&str, &File)]) -> Crate {
    let mut test_modules = Vec::new();
    for (path, file) in files {
        for module in test_modules::declared(&file.text) {
            let mut name = module_name(path);
            name.push(module);
            test_modules.push(name);
        }
    }
    let modules = files.iter().filter_map(|(path, file)| {
        let name = module_name(path);
        if test_modules.iter().any(|test| name.starts_with(test)) {
            return None;
        }
        let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned();
        let code = without_comments(&without_tests(&file.text));
        Some(Module { path: file.path.clone(), folder, name, code })
    });
    Crate { name: name.to_owned(), modules: modules.collect() }
}

/// Returns the module of a file, without `crate`.
fn module_name(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut name: Vec<String> = path.split('/').map(str::to_owned).collect();
    name.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn crate_has_the_modules_below_src_except_test_modules() {
        let files = [
            file("a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;\n"),
            file("a/src/b/mod.rs", "// Comment.\nfn f() {}\n"),
            file("a/src/b/c.rs", ""),
            file("a/src/tests.rs", "use super::b;\n"),
            file("a/tests/src/x.rs", ""),
            file("a/tests/x.rs", ""),
        ];
        let crates = crates(&files);
        assert_eq!(crates.len(), 1);
        let modules: Vec<_> = crates[0]
            .modules
            .iter()
            .map(|it| (it.name.join("::"), it.folder.as_str(), it.code.as_str()))
            .collect();
        let lib = "mod b;\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(
            modules,
            [
                (String::new(), ".", lib),
                ("b".into(), "b", "\nfn f() {}\n"),
                ("b::c".into(), "b", ""),
            ]
        );
    }
}
