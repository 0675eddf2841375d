//! `xds apply`: the resources in a directory as one change of etcd.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use serde_json::Value as Json;
use xds_core::ViewName;
use xds_etcd::{Diff, EtcdStore, Prune, Stored, StoredName, WriteError};
use xds_format::{PrintOptions, json_to_yaml, to_json};
use xds_fs::list_saved;

use super::{client, etcd_address, failed};
use crate::{
    args::ApplyArgs,
    directory::{Sources, parse_value},
    failure::{Failure, judged},
    json_diff::differences,
    output,
    resource_types::Validation,
    schema::schema,
    text::{count, escaped, type_name},
};

/// Maximum number of fields that are printed of a changed resource.
const MOST_FIELDS: usize = 8;

pub(crate) async fn apply(args: &ApplyArgs) -> Result<(), Failure> {
    let address = etcd_address(&args.to)?;
    let store = EtcdStore::new(client(address, &args.etcd)?, &address.prefix);
    let resources = read(&args.directory, args.view.as_str().into())?;
    let mut stored = store.read().await.map_err(|why| failed(&args.to, &why))?;
    for (key, fault) in &stored.faults {
        output::print_to_stderr(&format!("warning: {}: {fault}\n", escaped(key)));
    }
    // Other views are neither shown nor removed.
    stored.retain(|(view, ..)| view.as_str() == args.view);
    let prune = if args.prune { Prune::Yes } else { Prune::No };
    let resources = keep_equal(&stored, resources);
    let diff = stored.diff(&resources, prune);
    let shown = shown(&diff, &stored, &resources, args.dry_run);
    if args.dry_run {
        let differences = diff.added.len() + diff.changed.len() + diff.removed.len();
        let verdict = match u32::try_from(differences).unwrap_or(u32::MAX) {
            0 => Ok(()),
            differences => Err(Failure::Different(differences)),
        };
        return judged(output::print(&shown), verdict);
    }
    match store.write(&stored, &resources, prune).await {
        Ok(_) => output::print(&shown),
        Err(WriteError::Etcd(why)) => Err(failed(&args.to, &why)),
        Err(why) => Err(Failure::NotWritten(why.to_string())),
    }
}

/// Reads the directory. The value of a resource is its YAML.
fn read(directory: &Path, view: ViewName) -> Result<BTreeMap<StoredName, Bytes>, Failure> {
    let unreadable = |why| Failure::Directory { directory: directory.to_owned(), why };
    let mut sources = Sources::new(Validation::default());
    let errors = sources.update(list_saved(directory).map_err(unreadable)?);
    for error in &errors {
        output::print_to_stderr(&format!("error: {error}\n"));
    }
    let errors: usize = errors.iter().map(|it| it.problems.count()).sum();
    if errors > 0 {
        return Err(Failure::Found(u32::try_from(errors).unwrap_or(u32::MAX)));
    }
    values_of(&sources, &view)
}

/// Returns the values to store of all resources.
pub(crate) fn values_of(
    sources: &Sources,
    view: &ViewName,
) -> Result<BTreeMap<StoredName, Bytes>, Failure> {
    let mut resources = BTreeMap::new();
    for (_, key, bytes) in sources.by_file() {
        let json = to_json(schema(), key.type_url.as_str(), bytes, &PrintOptions::default())?;
        let name = (view.clone(), key.type_url.clone(), key.name.clone());
        resources.insert(name, Bytes::from(json_to_yaml(&json)));
    }
    Ok(resources)
}

/// Replaces values that mean the same as the stored ones by these, so that another spelling is no
/// difference.
fn keep_equal(
    stored: &Stored,
    mut resources: BTreeMap<StoredName, Bytes>,
) -> BTreeMap<StoredName, Bytes> {
    for (name, value) in &mut resources {
        if let Some(old) = stored.resources.get(name)
            && let (Some(before), Some(after)) = (meaning(name, old), meaning(name, value))
            && before == after
        {
            value.clone_from(old);
        }
    }
    resources
}

/// Returns the encoded message of a value; `None` if it is invalid.
fn meaning((_, type_url, name): &StoredName, value: &Bytes) -> Option<Bytes> {
    parse_value(type_url, name, value).ok()
}

/// Returns the difference as text: a line for each resource, and the fields that differ.
fn shown(
    diff: &Diff,
    stored: &Stored,
    resources: &BTreeMap<StoredName, Bytes>,
    is_dry: bool,
) -> String {
    let line = |mark: char, (_, type_url, name): &StoredName| {
        format!("{mark} {} {}\n", type_name(type_url.as_str()), escaped(name.as_str()))
    };
    let mut text = String::new();
    diff.added.iter().for_each(|name| text += &line('+', name));
    for name in &diff.changed {
        text += &line('~', name);
        let json = |value: Option<&Bytes>| {
            let bytes = meaning(name, value?)?;
            to_json(schema(), name.1.as_str(), &bytes, &PrintOptions::default()).ok()
        };
        match (json(stored.resources.get(name)), json(resources.get(name))) {
            (Some(old), Some(new)) => text += &fields(&old, &new),
            _ => text += "    the stored value is invalid\n",
        }
    }
    diff.removed.iter().for_each(|name| text += &line('-', name));
    let verb = if is_dry { "would be " } else { "" };
    let (added, changed) = (diff.added.len(), diff.changed.len());
    let removed = diff.removed.len();
    text + &format!(
        "{}: {added} {verb}added, {changed} {verb}changed, {removed} {verb}removed\n",
        count(resources.len() as u64, "resource")
    )
}

fn fields(old: &Json, new: &Json) -> String {
    let found = differences(old, new);
    let mut text = String::new();
    for difference in found.iter().take(MOST_FIELDS) {
        let value = |it: Option<&Json>| it.map_or_else(|| "none".to_owned(), Json::to_string);
        let (old, new) = (value(difference.old), value(difference.new));
        text += &format!("    {}: {} -> {}\n", difference.path, escaped(&old), escaped(&new));
    }
    match found.len().saturating_sub(MOST_FIELDS) {
        0 => text,
        more => text + &format!("    and {more} more\n"),
    }
}
