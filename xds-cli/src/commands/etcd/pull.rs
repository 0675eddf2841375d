//! `xds pull`: the resources in etcd as YAML.

use xds_etcd::EtcdStore;
use xds_format::{PrintOptions, json_to_yaml, to_json};

use super::{client, etcd_address, failed};
use crate::{
    args::PullArgs, directory::parse_value, failure::Failure, output, schema::schema, text::escaped,
};

pub(crate) async fn pull(args: &PullArgs) -> Result<(), Failure> {
    let address = etcd_address(&args.from)?;
    let store = EtcdStore::new(client(address, &args.etcd)?, &address.prefix);
    let stored = store.read().await.map_err(|why| failed(&args.from, &why))?;
    let mut errors = 0;
    let mut error = |what: &str| {
        errors += 1;
        output::print_to_stderr(&format!("error: {}\n", escaped(what)));
    };
    for (key, fault) in &stored.faults {
        error(&format!("{key}: {fault}"));
    }
    for ((view, type_url, name), value) in &stored.resources {
        if view.as_str() != args.view {
            continue;
        }
        match parse_value(type_url, name, value) {
            Ok(bytes) => {
                let json = to_json(schema(), type_url.as_str(), &bytes, &PrintOptions::default())?;
                output::print(&format!("---\n{}", json_to_yaml(&json)))?;
            }
            Err(problems) => problems.first.iter().for_each(|it| error(&it.to_string())),
        }
    }
    if errors > 0 { Err(Failure::Found(errors)) } else { Ok(()) }
}
