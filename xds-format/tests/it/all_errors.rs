//! All errors of a file at once, and positions in valid resources.

use xds_format::{
    Format, Leniency, ParseOptions, ResourcePositions, Schema, YamlFile, parse, parse_all,
};

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

fn errors(format: Format, text: &str, most: usize) -> (Vec<String>, usize) {
    let parsed =
        parse_all(Schema::envoy(), "f", format, text.as_bytes(), ParseOptions::envoy(), most);
    let errors = parsed.unwrap_err();
    (errors.errors.iter().map(ToString::to_string).collect(), errors.more)
}

const BROKEN: &str = r#"resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
  typ: EDS
  connect_timeout: soon
  metadata: {filter_metadata: {k: 5, l: 6}}
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: good
- "@type": type.googleapis.com/envoy.config.cluster.v3.Clutser
- name: none
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: good
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: e
  endpoints:
  - lb_endpoints:
    - endpoint: {address: {socket_address: {port_value: x}}}
    - health_status: SICK
"#;

#[test]
fn every_error_of_a_file_is_returned_in_order() {
    let (errors, more) = errors(Format::Yaml, BROKEN, 20);
    let starts: Vec<_> = errors.iter().map(|it| it.split(": ").next().unwrap()).collect();
    assert_eq!(
        starts,
        ["f:4:3", "f:5:20", "f:6:35", "f:6:41", "f:9:12", "f:10:3", "f:11:3", "f:17:57", "f:18:22"],
        "{errors:#?}"
    );
    assert_eq!(more, 0);
    for (at, part) in [
        (0, "did you mean `type`?"),
        (1, "connect_timeout: expected a duration"),
        (2, "filter_metadata[\"k\"]"),
        (4, "did you mean `envoy.config.cluster.v3.Cluster`?"),
        (5, "missing `@type`"),
        (6, "the resource `good` of type"),
        (7, "lb_endpoints[0].endpoint.address.socket_address.port_value"),
    ] {
        assert!(errors[at].contains(part), "{part}: {}", errors[at]);
    }
}

#[test]
fn first_error_is_the_only_one_of_parse() {
    let first = parse(Schema::envoy(), "f", Format::Yaml, BROKEN.as_bytes()).unwrap_err();
    assert_eq!(first.to_string(), errors(Format::Yaml, BROKEN, 20).0[0]);
}

#[test]
fn number_of_errors_is_limited_and_the_others_are_counted() {
    let (errors, more) = errors(Format::Yaml, BROKEN, 4);
    assert_eq!((errors.len(), more), (4, 5));
    let parsed =
        parse_all(Schema::envoy(), "f", Format::Yaml, BROKEN.as_bytes(), ParseOptions::envoy(), 1);
    assert!(parsed.unwrap_err().to_string().ends_with("\nand 8 more"));
}

#[test]
fn syntax_error_ends_the_file() {
    for (format, text) in
        [(Format::Yaml, "a: [\n"), (Format::Json, "{\"a\": }"), (Format::Text, "{")]
    {
        let (errors, more) = errors(format, text, 20);
        assert_eq!((errors.len(), more), (1, 0), "{errors:?}");
    }
}

#[test]
fn every_error_of_proto_text_is_returned() {
    let text = "resources { [t/envoy.config.cluster.v3.Cluster] { nam: \"c\" type: EDSS } }\n";
    let (errors, _) = errors(Format::Text, text, 20);
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn error_of_a_yaml_anchor_is_returned_once() {
    let text = "- &c\n  '@type': t/envoy.config.cluster.v3.Cluster\n  name: a\n  typ: EDS\n- *c\n";
    let (errors, _) = errors(Format::Yaml, text, 20);
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[test]
fn valid_file_has_no_errors() {
    let text = "'@type': t/envoy.config.cluster.v3.Cluster\nname: a\n";
    let options = ParseOptions::envoy();
    let document =
        parse_all(Schema::envoy(), "f", Format::Yaml, text.as_bytes(), options, 20).unwrap();
    assert_eq!(document, parse(Schema::envoy(), "f", Format::Yaml, text.as_bytes()).unwrap());
}

#[test]
fn every_error_of_a_nested_message_is_returned() {
    let text = b"node: {idd: a}\nadmin: {adress: {}}\n";
    let file = YamlFile::parse("b.yaml", text, Leniency::Envoy).unwrap();
    let bootstrap = "envoy.config.bootstrap.v3.Bootstrap";
    let errors =
        file.encode_all(Schema::envoy(), bootstrap, "", ParseOptions::envoy(), 20).unwrap_err();
    let lines = errors.to_string();
    assert!(
        lines.contains("b.yaml:1:8: node: ") && lines.contains("\nb.yaml:2:9: admin: "),
        "{lines}"
    );
    let json = YamlFile::parse_json("b.json", b"{\"a\":\n 1}", Leniency::Strict).unwrap();
    assert_eq!(json.position("a").unwrap().to_string(), "2:2");
    assert!(YamlFile::parse_json("b.json", b"a: 1", Leniency::Strict).is_err());
}

#[test]
fn values_of_valid_resources_have_positions() {
    let file = r#"
resources:
- "@type": type.googleapis.com/envoy.service.discovery.v3.Resource
  name: wrapped
  resource:
    "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: inner
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: shop
  connectTimeout: 0s
  edsClusterConfig:
    serviceName: shop
---
"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r
virtual_hosts:
- name: shop
  domains: ["*"]
  routes:
  - match: {prefix: /}
    route: {cluster: shop}
  - match: {prefix: /w}
    route: {weighted_clusters: {clusters: [{name: v, weight: 1}]}}
- name: v
"#;
    let options = ParseOptions::envoy();
    let places = ResourcePositions::parse(Format::Yaml, file.as_bytes(), options).unwrap();
    let at = |name: &str, path: &str| places.position(CLUSTER, name, path).map(|it| it.to_string());
    assert_eq!(at("wrapped", "").as_deref(), Some("6:5"));
    assert_eq!(at("inner", ""), None, "the wrapper's name counts");
    assert_eq!(at("shop", "connect_timeout").as_deref(), Some("10:19"));
    assert_eq!(at("none", ""), None);
    let mention = |type_url: &str, name: &str, target: &str, fields: &[&str]| {
        places.mention(type_url, name, target, fields).map(|it| it.to_string())
    };
    let routes = "t/envoy.config.route.v3.RouteConfiguration";
    assert_eq!(mention(routes, "r", "shop", &["cluster"]).as_deref(), Some("21:22"));
    let weighted = mention(routes, "r", "v", &["cluster", "clusters.name"]);
    assert_eq!(weighted.as_deref(), Some("23:51"));
    assert_eq!(mention(routes, "r", "gone", &["cluster"]).as_deref(), Some("14:1"));
    assert_eq!(mention(CLUSTER, "shop", "shop", &["service_name"]).as_deref(), Some("12:18"));
}

#[test]
fn positions_are_found_in_every_text_format() {
    let json = br#"[{"@type": "t/envoy.config.cluster.v3.Cluster",
 "name": "a", "type": "EDS"}]"#;
    let text = b"resources {\n  [t/envoy.config.cluster.v3.Cluster] {\n    name: \"a\"\n    type: EDS }\n}\n";
    let header = b"# proto-message: envoy.config.cluster.v3.Cluster\nname: \"a\"\ntype: EDS\n";
    for (format, input, expected) in [
        (Format::Json, &json[..], "2:23"),
        (Format::Text, &text[..], "4:11"),
        (Format::Text, &header[..], "3:7"),
    ] {
        let places = ResourcePositions::parse(format, input, ParseOptions::envoy()).unwrap();
        let place = places.position(CLUSTER, "a", "type").map(|it| it.to_string());
        assert_eq!(place.as_deref(), Some(expected));
    }
    assert!(ResourcePositions::parse(Format::Binary, b"", ParseOptions::envoy()).is_none());
    assert!(ResourcePositions::parse(Format::Yaml, b"a: [", ParseOptions::envoy()).is_none());
}

#[test]
fn first_of_several_resources_with_one_name_has_the_position() {
    let file = br#"
- {"@type": t/envoy.config.cluster.v3.Cluster, name: a}
- {"@type": t/envoy.config.cluster.v3.Cluster, name: a}
- {"@type": t/envoy.config.route.v3.RouteConfiguration, name: b}
- {"@type": t/envoy.config.cluster.v3.Cluster, name: b, alt_stat_name: a}
---
resources:
- {"@type": t/envoy.config.route.v3.RouteConfiguration, name: b}
- {"@type": t/envoy.config.cluster.v3.Cluster, name: c}
"#;
    let places = ResourcePositions::parse(Format::Yaml, file, ParseOptions::envoy()).unwrap();
    let line = |type_url: &str, name: &str| places.position(type_url, name, "").map(|it| it.line);
    let routes = "t/envoy.config.route.v3.RouteConfiguration";
    assert_eq!(line(CLUSTER, "a"), Some(2));
    assert_eq!(line(CLUSTER, "b"), Some(5));
    assert_eq!(line(CLUSTER, "c"), Some(9));
    assert_eq!(line(routes, "b"), Some(4));
    assert_eq!(line(routes, "a"), None);
}

#[test]
fn each_of_many_references_has_the_position_of_its_text() {
    let mut file = String::from(
        "\"@type\": t/envoy.config.route.v3.RouteConfiguration\nname: r\nvirtual_hosts:\n- name: v\n  routes:\n",
    );
    for i in 0..500 {
        file += &format!("  - {{match: {{prefix: /c{i}}}, route: {{cluster: c{i}}}}}\n");
    }
    let places =
        ResourcePositions::parse(Format::Yaml, file.as_bytes(), ParseOptions::envoy()).unwrap();
    let routes = "t/envoy.config.route.v3.RouteConfiguration";
    for i in 0..500 {
        let place = places.mention(routes, "r", &format!("c{i}"), &["cluster"]);
        assert_eq!(place.map(|it| it.line), Some(6 + i));
    }
}
