//! `proto/xds` and `proto/udpa` as a descriptor set: messages that the Envoy API names only inside an `Any`, and
//! that a descriptor set of that API therefore lacks; and for the same reason `google.protobuf.FieldMask`.
//! `xds-format` embeds the set.

use std::fs;
use std::path::Path;

use crate::codegen::{SCHEMA, schema_files};
use crate::error::Error;
use crate::tree::{Difference, at};

/// Where the output lives, relative to the workspace's root.
pub(crate) const OUTPUT: &str = "xds-format/src/schema/xds_types.bin";

/// The folders of `proto/` whose files are in the set, with what they import.
const FOLDERS: [&str; 2] = ["xds", "udpa"];

/// A well-known type that nothing in the Envoy API refers to.
const FIELD_MASK: &str = "google/protobuf/field_mask.proto";

/// Regenerates the output and returns a line about it.
pub(crate) fn write(root: &Path) -> Result<String, Error> {
    let (path, set) = (root.join(OUTPUT), generate(root)?);
    let is_changed = fs::read(&path).ok().as_deref() != Some(&*set);
    if is_changed {
        fs::write(&path, &set).map_err(at(&path))?;
    }
    let changed = if is_changed { "changed" } else { "not changed" };
    Ok(format!("{OUTPUT}: {} bytes, {changed}", set.len()))
}

/// Compares the output with what `gen` would write.
pub(crate) fn check(root: &Path) -> Result<Option<Difference>, Error> {
    let is_same = fs::read(root.join(OUTPUT)).ok() == Some(generate(root)?);
    Ok((!is_same).then(|| Difference::Binary { path: OUTPUT.to_owned() }))
}

/// The encoded set: files after those that they import, without comments.
fn generate(root: &Path) -> Result<Vec<u8>, Error> {
    let schema = root.join(SCHEMA);
    let mut compiler = protox::Compiler::new([&schema])?;
    compiler.include_imports(true);
    for folder in FOLDERS {
        compiler.open_files(schema_files(&schema.join(folder))?)?;
    }
    compiler.open_files([FIELD_MASK])?;
    Ok(compiler.encode_file_descriptor_set())
}

#[cfg(test)]
mod tests {
    use protox::prost_reflect::DescriptorPool;

    use super::*;

    /// Validation rules are extensions, which a decode through generated types would lose.
    #[test]
    fn the_set_is_complete_and_keeps_constraints() {
        let set = generate(&crate::root()).expect("the schema compiles");
        let pool = DescriptorPool::decode(&*set).expect("a complete set");
        let rules = pool.get_extension_by_name("validate.rules").expect("it is imported");
        let matcher =
            pool.get_message_by_name("xds.type.matcher.v3.CelMatcher").expect("a message");
        let field = matcher.get_field_by_name("expr_match").expect("a field");
        assert!(field.options().has_extension(&rules));
        assert!(pool.get_message_by_name("envoy.config.core.v3.Node").is_none());
    }
}
