//! Clients of version 2 of the API: they call other services, and ask for types by other names. What they are
//! served is what the application has stored under those names; the rules are those of version 3.

use crate::support::Rig;
use xds_core::{
    server::{Variant, Via},
    service::{self, ApiVersion},
    types,
};

/// What the paths of version 2 stand for.
#[test]
fn a_path_of_version_2_is_a_stream_of_the_type_of_that_version() {
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let path = service::grpc_path(None, variant, ApiVersion::V2).expect("there is one");
        assert!(path.starts_with("/envoy.service.discovery.v2.AggregatedDiscoveryService/"));
        let method = service::method_at(path).expect("it is served");
        assert_eq!(Via::of(method), Via::Aggregated(variant));
        for short in ["cds", "eds", "lds", "rds", "srds", "vhds", "sds", "rtds"] {
            let current = types::by_short_name(short).expect("a type");
            let Some(path) = service::grpc_path(Some(current), variant, ApiVersion::V2) else {
                assert!(short == "vhds" && variant == Variant::StateOfTheWorld);
                continue;
            };
            let older = types::older_name(current).expect("it was there");
            assert_eq!(service::grpc_path(Some(older), variant, ApiVersion::V2), Some(path));
            let via = Via::of(service::method_at(path).expect("it is served"));
            assert_eq!(via, Via::Single { type_url: older.into(), variant });
        }
    }
    println!("covers: S4.014");
}

/// The rules of a type are those of the same type in version 3: clusters are complete, and come first.
#[test]
fn the_rules_of_a_type_do_not_depend_on_the_version() {
    let mut rig = Rig::script(
        "set cds2 a=1 b=1; eds2 a=1; lds2 l=1
         > lds2
         > cds2
         > eds2 a
         < cds2 first a=1 b=1
         < eds2 first a=1
         < lds2 first l=1
         > cds2
         > eds2 a
         > lds2
         set cds2 -a
         < cds2 changed b=1
         > cds2
         <",
    );
    // Nothing of version 3 is among it, and the other way round.
    rig.run(
        "set cds c=1
         <
         2> cds
         2< cds first c=1
         3d> cds2 +*
         3d< cds2 first b=1
         3d> cds2 ack
         2> cds
         set cds2 -b; cds -c
         3d< cds2 changed -b
         2< cds changed",
    );
    println!("covers: S4.051");
}
