//! Descriptor set of `proto/xds`, `proto/udpa` and `google.protobuf.FieldMask`,
//! which `xds-format` embeds.
//!
//! The Envoy API uses these messages only inside an `Any`, so its own descriptor set lacks them.

use std::fs;
use std::path::Path;

use crate::codegen::{SCHEMA, schema_files};
use crate::repository::error::Error;
use crate::repository::tree::{Difference, at};

/// Output file, relative to the workspace's root.
pub(crate) const OUTPUT: &str = "xds-format/src/schema/xds_types.bin";

/// Folders of `proto/` whose files are in the set, together with the files they import.
const FOLDERS: [&str; 2] = ["xds", "udpa"];

/// Well-known type that no file of the Envoy API refers to.
const FIELD_MASK: &str = "google/protobuf/field_mask.proto";

/// Regenerates the output and returns a summary.
pub(crate) fn write(root: &Path) -> Result<String, Error> {
    let (path, set) = (root.join(OUTPUT), generate(root)?);
    let is_changed = fs::read(&path).ok().as_deref() != Some(&*set);
    if is_changed {
        fs::write(&path, &set).map_err(at(&path))?;
    }
    let changed = if is_changed { "changed" } else { "not changed" };
    Ok(format!("{OUTPUT}: {} bytes, {changed}", set.len()))
}

/// Compares the output with the result of `gen`.
pub(crate) fn check(root: &Path) -> Result<Option<Difference>, Error> {
    let is_same = fs::read(root.join(OUTPUT)).ok() == Some(generate(root)?);
    Ok((!is_same).then(|| Difference::Binary { path: OUTPUT.to_owned() }))
}

/// Encodes the set: each file after its imports, without comments.
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

    /// Validation rules are extensions, which decoding into generated types would lose.
    #[test]
    fn descriptor_set_is_complete_and_keeps_constraints() {
        let set = generate(&crate::repository::root()).expect("the schema compiles");
        let pool = DescriptorPool::decode(&*set).expect("a complete set");
        let rules = pool.get_extension_by_name("validate.rules").expect("it is imported");
        let matcher =
            pool.get_message_by_name("xds.type.matcher.v3.CelMatcher").expect("a message");
        let field = matcher.get_field_by_name("expr_match").expect("a field");
        assert!(field.options().has_extension(&rules));
        assert!(pool.get_message_by_name("envoy.config.core.v3.Node").is_none());
    }
}
