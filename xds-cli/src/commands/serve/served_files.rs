//! Directories whose files would be served.

use std::{
    fs,
    path::{Path, PathBuf},
};

use xds_source::Subdirectories;

/// Whether the files in a directory would be read as resources: it is the served directory, or one
/// of its views. The directory need not exist.
pub(super) fn are_in(
    directory: &Path,
    served: Option<&Path>,
    subdirectories: Subdirectories,
) -> bool {
    let Some(served) = served.map(real) else { return false };
    let directory = real(directory);
    let is_view = || {
        // A view may be a link to a directory elsewhere.
        let views = fs::read_dir(&served).into_iter().flatten().flatten();
        directory.parent() == Some(&served)
            || views.map(|it| real(&it.path())).any(|it| it == directory)
    };
    directory == served || (subdirectories == Subdirectories::Views && is_view())
}

/// Returns the path without links. Its last parts need not exist.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => absolute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_and_its_views_are_served() {
        let place = std::env::temp_dir().join(format!("xds-served-files-{}", std::process::id()));
        let served = place.join("served");
        fs::create_dir_all(served.join("view")).unwrap();
        let are =
            |path: &str, subdirectories| are_in(&place.join(path), Some(&served), subdirectories);
        for (path, ignored, views) in [
            ("served", true, true),
            ("served/.", true, true),
            ("served/view", false, true),
            ("served/new", false, true),
            ("served/view/deeper", false, false),
            ("other", false, false),
            ("", false, false),
        ] {
            assert_eq!(are(path, Subdirectories::Ignored), ignored, "{path}");
            assert_eq!(are(path, Subdirectories::Views), views, "{path}");
        }
        assert!(!are_in(&served, None, Subdirectories::Views));
        fs::remove_dir_all(&place).unwrap();
    }
}
