//! Clients of version 2 of the xDS API, which use other services and type names. They get the
//! resources stored under the version 2 types, by the rules of version 3.

use crate::support::Rig;
use xds_core::{
    server::{StreamKind, Variant},
    service::{self, ApiVersion},
    types,
};

/// Paths of version 2 lead to streams of version 2 types.
#[test]
fn v2_path_opens_stream_of_v2_type() {
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let path = service::grpc_path(None, variant, ApiVersion::V2).expect("there is one");
        assert!(path.starts_with("/envoy.service.discovery.v2.AggregatedDiscoveryService/"));
        let method = service::method_at(path).expect("it is served");
        assert_eq!(StreamKind::of(method), StreamKind::Aggregated(variant));
        for short in ["cds", "eds", "lds", "rds", "srds", "vhds", "sds", "rtds"] {
            let current = types::by_short_name(short).expect("a type");
            let Some(path) = service::grpc_path(Some(current), variant, ApiVersion::V2) else {
                assert!(short == "vhds" && variant == Variant::StateOfTheWorld);
                continue;
            };
            let older = types::v2_type_url(current).expect("it was there");
            assert_eq!(service::grpc_path(Some(older), variant, ApiVersion::V2), Some(path));
            let via = StreamKind::of(service::method_at(path).expect("it is served"));
            assert_eq!(via, StreamKind::Single { type_url: older.into(), variant });
        }
    }
    println!("covers: S4.014");
}

/// Types have the rules of their version 3 equivalents: clusters are complete and come first.
#[test]
fn v2_types_follow_v3_rules() {
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
    // Resources of the two versions are separate.
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
