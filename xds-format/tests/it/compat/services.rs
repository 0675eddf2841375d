//! Services, methods and their paths.

use crate::common::protos::schema;
use crate::compat::{expect, found};

#[test]
fn package_change_breaks_grpc_paths_but_not_rest_paths() {
    let service = "message M {} service Things { rpc Fetch(M) returns (M) \
                   { option (google.api.http) = { post: \"/v2/discovery:things\" body: \"*\" }; } }";
    let of = |package: &str| schema(&format!("package {package};\n{service}"));
    assert_eq!(
        found(&of("acme.v1"), &of("acme.thing.v1")),
        ["message-moved M: type-url, code", "service-moved Things: service-path, code"]
    );
    rest_paths();
    println!("covers: S4.058 S4.059");
}

pub(crate) fn rest_paths() {
    let of = |http: &str| {
        format!("message M {{}} service S {{ rpc Fetch(M) returns (M) {{ {http} }} }}")
    };
    let path = of("option (google.api.http) = { post: \"/v3/discovery:things\" body: \"*\" };");
    expect(&path, &of(""), &["rest-path-changed S.Fetch: rest-path"]);
    expect(
        &path,
        &of("option (google.api.http) = { post: \"/v4/discovery:things\" body: \"*\" };"),
        &["rest-path-changed S.Fetch: rest-path"],
    );
    expect(
        &path,
        &of("option (google.api.http) = { get: \"/v3/discovery:things\" };"),
        &["rest-path-changed S.Fetch: rest-path"],
    );
    expect(
        &path,
        &of("option (google.api.http) = { post: \"/v3/discovery:things\" };"),
        &["rest-body-changed S.Fetch: rest-path"],
    );
    // The old path may be kept as an additional binding.
    expect(
        &path,
        &of("option (google.api.http) = { post: \"/v4/discovery:things\" body: \"*\" \
             additional_bindings { post: \"/v3/discovery:things\" body: \"*\" } };"),
        &[],
    );
}

#[test]
fn changed_request_or_response_type_of_a_method_is_a_break() {
    methods();
}

pub(crate) fn methods() {
    expect(
        "message M { int32 x = 1; } message N {} service S { rpc A(M) returns (M); rpc B(M) returns (M); }",
        "message M { int32 x = 1; } message N {} service S { rpc A(N) returns (M); rpc B(M) returns (stream M); }",
        &[
            "method-type-changed S.A: binary, text, code",
            "method-streaming-changed S.B: service-path, code",
        ],
    );
    expect(
        "message M {} service Things { rpc Get(M) returns (M); }",
        "message M {} service Items { rpc Get(M) returns (M); }",
        &["service-moved Things: service-path, code"],
    );
}
