//! Embeds the Envoy v3 descriptor set (feature `envoy`).
//!
//! The set is a file inside the `envoy-types` package. Cargo has downloaded it as a dependency, but
//! does not pass the location of a dependency's sources to a build script. The script searches, in
//! this order: the file named by `XDS_ENVOY_DESCRIPTORS`; cargo's unpacked registry sources;
//! vendored sources; `cargo metadata`. `metadata` comes last because it requires every package of
//! the workspace, which may not be downloaded yet.
//!
//! The embedded set lacks `source_code_info` (comments and positions, most of the file). It is
//! removed on the wire level, because decoding through generated types would lose the extension
//! options (`sensitive`, validation rules).

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

#[allow(dead_code)]
#[path = "src/wire.rs"]
mod wire;

const PACKAGE: &str = "envoy-types";
const FILE_IN_PACKAGE: &str = "src/generated/types.bin";
const OVERRIDE: &str = "XDS_ENVOY_DESCRIPTORS";

/// Field numbers of `FileDescriptorSet.file` and `FileDescriptorProto.source_code_info`.
const SET_FILE: u32 = 1;
const FILE_SOURCE_CODE_INFO: u32 = 9;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OVERRIDE}");
    if env::var_os("CARGO_FEATURE_ENVOY").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=CARGO_HOME");

    let Some(path) = locate() else {
        fail(&format!(
            "the Envoy descriptor set was not found: no `{FILE_IN_PACKAGE}` of the pinned `{PACKAGE}` in cargo's registry \
             sources, in vendored sources or through `cargo metadata`; set {OVERRIDE} to the path of an encoded \
             FileDescriptorSet of the Envoy v3 API, or build without the feature `envoy`"
        ));
    };
    println!("cargo::rerun-if-changed={}", path.display());
    let set =
        fs::read(&path).unwrap_or_else(|e| fail(&format!("cannot read {}: {e}", path.display())));
    let stripped = strip(&set).unwrap_or_else(|e| {
        fail(&format!("{} is not an encoded FileDescriptorSet: {e}", path.display()))
    });
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("envoy.bin");
    fs::write(&out, stripped)
        .unwrap_or_else(|e| fail(&format!("cannot write {}: {e}", out.display())));
}

fn locate() -> Option<PathBuf> {
    if let Some(path) = env::var_os(OVERRIDE) {
        return Some(path.into());
    }
    let manifest_dir =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let lock = find_lock(&manifest_dir);
    if let Some((lock, _)) = &lock {
        println!("cargo::rerun-if-changed={}", lock.display());
    }
    lock.and_then(|(lock, version)| {
        let workspace = lock.parent().unwrap_or(&manifest_dir);
        in_registry(&version).or_else(|| in_vendor(workspace, &manifest_dir, &version))
    })
    .or_else(|| through_metadata(&manifest_dir))
}

/// Returns the lock file that pins the package, and the pinned version. The lock file of the
/// workspace is in a parent directory, or (if this crate is a dependency) above the build
/// directory.
fn find_lock(manifest_dir: &Path) -> Option<(PathBuf, String)> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR")?);
    manifest_dir.ancestors().chain(out_dir.ancestors()).find_map(|dir| {
        let lock = dir.join("Cargo.lock");
        let version = pinned_version(&fs::read_to_string(&lock).ok()?)?;
        Some((lock, version))
    })
}

fn pinned_version(lock: &str) -> Option<String> {
    let mut lines = lock.lines().skip_while(|line| line.trim() != format!("name = \"{PACKAGE}\""));
    lines.next()?;
    Some(lines.next()?.trim().strip_prefix("version = \"")?.strip_suffix('"')?.to_owned())
}

/// Searches `CARGO_HOME/registry/src/<registry>/<package>-<version>`, for any registry or mirror.
fn in_registry(version: &str) -> Option<PathBuf> {
    let cargo_home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))?;
    let mut registries: Vec<_> = fs::read_dir(cargo_home.join("registry/src"))
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    registries.sort();
    registries
        .into_iter()
        .map(|registry| registry.join(format!("{PACKAGE}-{version}")).join(FILE_IN_PACKAGE))
        .find(|path| path.is_file())
}

/// Searches the directories of `cargo vendor`: `vendor/<package>`, or with `--versioned-dirs`
/// `vendor/<package>-<version>`. If this crate is vendored itself, the package is next to it.
fn in_vendor(workspace: &Path, manifest_dir: &Path, version: &str) -> Option<PathBuf> {
    let vendor = workspace.join("vendor");
    [Some(vendor.as_path()), manifest_dir.parent()].into_iter().flatten().find_map(|dir| {
        let versioned = dir.join(format!("{PACKAGE}-{version}"));
        let plain = dir.join(PACKAGE);
        [versioned, plain]
            .into_iter()
            .filter(|package| is_version(package, version))
            .map(|package| package.join(FILE_IN_PACKAGE))
            .find(|path| path.is_file())
    })
}

fn is_version(package: &Path, version: &str) -> bool {
    fs::read_to_string(package.join("Cargo.toml")).is_ok_and(|toml| {
        toml.lines().any(|line| line.trim() == format!("version = \"{version}\""))
    })
}

fn through_metadata(manifest_dir: &Path) -> Option<PathBuf> {
    let output = Command::new(env::var_os("CARGO")?)
        .args(["metadata", "--format-version=1", "--offline", "--filter-platform"])
        .arg(env::var_os("TARGET")?)
        .arg("--manifest-path")
        .arg(manifest_dir.join("Cargo.toml"))
        .output()
        .ok()?;
    let json = String::from_utf8(output.stdout).ok()?;
    json.split("\"manifest_path\":\"").skip(1).find_map(|rest| {
        let manifest = PathBuf::from(rest.split('"').next()?.replace("\\\\", "\\"));
        let package = manifest.parent()?;
        let name = package.file_name().and_then(OsStr::to_str)?;
        let file = package.join(FILE_IN_PACKAGE);
        (name.starts_with(PACKAGE) && file.is_file()).then_some(file)
    })
}

fn strip(set: &[u8]) -> Result<Vec<u8>, wire::WireError> {
    let mut out = Vec::with_capacity(set.len() / 2);
    for field in wire::Fields::new(set) {
        let field = field?;
        match field.payload {
            wire::Payload::Len(file) if field.number == SET_FILE => {
                let mut kept = Vec::with_capacity(file.len());
                for field in wire::Fields::new(file) {
                    let field = field?;
                    if field.number != FILE_SOURCE_CODE_INFO {
                        kept.extend_from_slice(field.raw);
                    }
                }
                wire::put_len(&mut out, SET_FILE, &kept);
            }
            _ => out.extend_from_slice(field.raw),
        }
    }
    Ok(out)
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1)
}
