//! Random messages of any type, generated from descriptors.

pub(crate) mod protos;

use prost_reflect::prost::Message as _;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};
use xds_format::Schema;

/// Types that most configurations consist of.
pub(crate) const RESOURCE_TYPES: [&str; 7] = [
    "envoy.config.cluster.v3.Cluster",
    "envoy.config.endpoint.v3.ClusterLoadAssignment",
    "envoy.config.listener.v3.Listener",
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.config.route.v3.ScopedRouteConfiguration",
    "envoy.extensions.transport_sockets.tls.v3.Secret",
    "envoy.service.runtime.v3.Runtime",
];

/// Types inside random `Any`s.
const ANY_TYPES: [&str; 6] = [
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.filters.http.router.v3.Router",
    "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    "google.protobuf.Duration",
    "google.protobuf.Struct",
    "xds.type.v3.TypedStruct",
];

const STRINGS: [&str; 22] = [
    "",
    "a",
    "backend",
    "yes",
    "no",
    "n",
    "null",
    "~",
    "0777",
    "1e3",
    "1.10",
    "12",
    "0x1F",
    ".inf",
    "- x",
    "a: b",
    "#c",
    "two\nlines\n",
    "tab\tquote\"back\\slash",
    " spaced ",
    "äöü😀\u{7f}\u{85}\u{2028}",
    "<<",
];

/// Random number generator (splitmix64). A seed gives the same message on every machine.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Creates a message with some of its fields set, nested `depth` levels.
pub(crate) fn random_message(
    rng: &mut Rng,
    message: &MessageDescriptor,
    depth: usize,
) -> DynamicMessage {
    let mut out = DynamicMessage::new(message.clone());
    match message.full_name() {
        "google.protobuf.Any" => fill_any(rng, &mut out, depth),
        "google.protobuf.Duration" => fill_seconds(rng, &mut out, 315_576_000_000),
        "google.protobuf.Timestamp" => fill_seconds(rng, &mut out, 62_135_596_800),
        "google.protobuf.FieldMask" => {
            out.set_field_by_number(
                1,
                Value::List(vec![Value::String("a.b_c".into()), Value::String("d".into())]),
            );
        }
        "google.protobuf.Value" => fill_value(rng, &mut out, depth),
        _ => {
            for field in message.fields() {
                // More fields at the top, because half of the messages would be empty otherwise.
                if rng.one_in(if depth > 3 { 2 } else { 4 }) {
                    out.set_field(&field, random_field(rng, &field, depth));
                }
            }
        }
    }
    out
}

fn random_field(rng: &mut Rng, field: &FieldDescriptor, depth: usize) -> Value {
    let count = rng.below(3);
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { unreachable!("maps are made of messages") };
        let (key, value) =
            (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
        return Value::Map(
            (0..count).map(|_| (random_key(rng, &key), random_value(rng, &value, depth))).collect(),
        );
    }
    if field.is_list() {
        return Value::List((0..count).map(|_| random_value(rng, &field.kind(), depth)).collect());
    }
    random_value(rng, &field.kind(), depth)
}

fn random_key(rng: &mut Rng, kind: &Kind) -> MapKey {
    match kind {
        Kind::String => MapKey::String(random_string(rng)),
        Kind::Bool => MapKey::Bool(rng.one_in(2)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(rng.next() as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(rng.next() as i64),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(rng.next() as u32),
        _ => MapKey::U64(rng.next()),
    }
}

fn random_value(rng: &mut Rng, kind: &Kind, depth: usize) -> Value {
    match kind {
        Kind::Double => Value::F64(f64::from(rng.next() as i32) / 256.0),
        Kind::Float => Value::F32(f32::from(rng.next() as i16) / 3.0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            Value::I32(rng.next() as i32 >> rng.below(31))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            Value::I64(rng.next() as i64 >> rng.below(63))
        }
        Kind::Uint32 | Kind::Fixed32 => Value::U32(rng.next() as u32 >> rng.below(31)),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(rng.next() >> rng.below(63)),
        Kind::Bool => Value::Bool(rng.one_in(2)),
        Kind::String => Value::String(random_string(rng)),
        Kind::Bytes => Value::Bytes(rng.next().to_le_bytes()[..rng.below(9)].to_vec().into()),
        Kind::Enum(enumeration) => {
            let values: Vec<_> = enumeration.values().collect();
            Value::EnumNumber(values[rng.below(values.len())].number())
        }
        Kind::Message(message) if depth == 0 => Value::Message(leaf(message)),
        Kind::Message(message) => Value::Message(random_message(rng, message, depth - 1)),
    }
}

/// Creates the smallest printable message of a type: a `Value` must have a kind, an `Any` a type.
fn leaf(message: &MessageDescriptor) -> DynamicMessage {
    let mut out = DynamicMessage::new(message.clone());
    match message.full_name() {
        "google.protobuf.Value" => out.set_field_by_number(4, Value::Bool(true)),
        "google.protobuf.Any" => {
            let url =
                "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router".to_owned();
            out.set_field_by_number(1, Value::String(url));
        }
        _ => {}
    }
    out
}

pub(crate) fn random_string(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => format!("name-{}", rng.below(1000)),
        _ => STRINGS[rng.below(STRINGS.len())].to_owned(),
    }
}

fn fill_any(rng: &mut Rng, any: &mut DynamicMessage, depth: usize) {
    let pool = any.descriptor().parent_pool().clone();
    let inner = pool
        .get_message_by_name(ANY_TYPES[rng.below(ANY_TYPES.len())])
        .expect("a type of the schema");
    let url = format!("type.googleapis.com/{}", inner.full_name());
    let value = random_message(rng, &inner, depth.saturating_sub(1)).encode_to_vec();
    any.set_field_by_number(1, Value::String(url));
    any.set_field_by_number(2, Value::Bytes(value.into()));
}

fn fill_seconds(rng: &mut Rng, out: &mut DynamicMessage, limit: u64) {
    out.set_field_by_number(1, Value::I64((rng.next() % limit) as i64));
    if rng.one_in(2) {
        out.set_field_by_number(2, Value::I32(rng.below(1_000_000_000) as i32));
    }
}

fn fill_value(rng: &mut Rng, out: &mut DynamicMessage, depth: usize) {
    let number = [1, 2, 3, 4, 5, 6][rng.below(if depth == 0 { 4 } else { 6 })];
    let field = out.descriptor().get_field(number).expect("the oneof has six members");
    let value = random_value(rng, &field.kind(), depth);
    out.set_field(&field, value);
}

/// Returns a random type: in half of the cases a common resource type, otherwise any message type.
pub(crate) fn random_type(rng: &mut Rng, schema: &Schema) -> MessageDescriptor {
    if rng.one_in(2) {
        let name = RESOURCE_TYPES[rng.below(RESOURCE_TYPES.len())];
        return schema.message(name).expect("a type of the schema");
    }
    let all: Vec<_> = schema
        .pool()
        .all_messages()
        .filter(|m| {
            !m.is_map_entry()
                && m.package_name().starts_with("envoy.")
                && !m.package_name().contains("annotations")
        })
        .collect();
    all[rng.below(all.len())].clone()
}
