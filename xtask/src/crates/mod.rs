//! Generates `docs/pictures/crates.svg`, the diagram of the crates, from their manifests.
//!
//! `layout.rs` has the place and the caption of each crate; `graph.rs` reads the dependencies;
//! `draw.rs` writes the SVG. A crate without a place, and a place without a crate, is an error.

mod draw;
mod graph;
mod layout;

use std::fs;
use std::path::Path;

use self::graph::Graph;
use self::layout::PLACES;
use crate::repository::error::Error;
use crate::repository::tree::at;

/// Path of the diagram.
const DIAGRAM: &str = "docs/pictures/crates.svg";

/// Writes the diagram and returns a summary.
pub(crate) fn write(root: &Path) -> Result<String, Error> {
    let graph = Graph::load(root)?;
    let path = root.join(DIAGRAM);
    fs::write(&path, diagram(&graph)?).map_err(at(&path))?;
    Ok(format!("{DIAGRAM}: {} crates, {} arrows", PLACES.len(), graph.direct().len()))
}

fn diagram(graph: &Graph) -> Result<String, Error> {
    let findings = misplaced(graph);
    match findings.is_empty() {
        true => Ok(draw::svg(&graph.direct())),
        false => Err(Error::Crates { findings }),
    }
}

/// Lists crates and places that do not match, and arrows that do not point down.
fn misplaced(graph: &Graph) -> Vec<String> {
    let has_place = |name: &str| PLACES.iter().any(|place| place.name == name);
    let missing = graph.crates().filter(|name| !has_place(name));
    let missing = missing.map(|name| format!("{name} has no place in xtask/src/crates/layout.rs"));
    let gone = PLACES.iter().filter(|place| graph.crates().all(|name| name != place.name));
    let gone = gone.map(|place| format!("{} is not a crate of the workspace", place.name));
    let row = |name: &str| PLACES.iter().find(|place| place.name == name).map(|place| place.row);
    let rising = graph.direct().into_iter().filter(|edge| row(&edge.from) >= row(&edge.to));
    let rising = rising.map(|edge| format!("{} must be above {}", edge.from, edge.to));
    let mut findings: Vec<_> = missing.chain(gone).collect();
    // Arrows need both places.
    if findings.is_empty() {
        findings.extend(rising);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::{read, root};

    #[test]
    fn diagram_shows_the_crates_of_the_workspace() {
        let diagram = diagram(&Graph::load(&root()).unwrap()).unwrap();
        let checked_in = read(&root(), DIAGRAM).unwrap();
        assert!(diagram == checked_in, "{DIAGRAM} is stale: run `cargo xtask crates`");
    }

    #[test]
    fn crate_without_a_place_is_reported() {
        let graph = Graph::of(&[("xds-new", &[]), ("xds-core", &[])]);
        let findings = misplaced(&graph);
        assert_eq!(findings[0], "xds-new has no place in xtask/src/crates/layout.rs");
        assert!(findings.contains(&"xds-grpc is not a crate of the workspace".to_owned()));
        assert!(diagram(&graph).is_err());
    }

    #[test]
    fn arrow_that_points_up_is_reported() {
        let mut crates: Vec<(&str, &[(&str, bool)])> =
            PLACES.iter().map(|place| (place.name, &[][..])).collect();
        assert_eq!(misplaced(&Graph::of(&crates)), [""; 0]);
        let core = crates.iter_mut().find(|(name, _)| *name == "xds-core").unwrap();
        core.1 = &[("xds-grpc", false)];
        assert_eq!(misplaced(&Graph::of(&crates)), ["xds-core must be above xds-grpc"]);
    }
}
