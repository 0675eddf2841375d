//! Encoding of map fields, with the entries sorted by key.

use std::borrow::Cow;

use prost_reflect::{FieldDescriptor, Kind};

use super::scalar::Scalar;
use super::{Dialect, Encoder, Location, Result, put_nested, takes_null};
use crate::error::{ErrorKind, Fault, Path};
use crate::tree::json::is_number;
use crate::tree::{Member, Node, Value};
use crate::wire;

/// Field numbers of `key` and `value` of a map entry.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// Sort key of a map entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order<'n> {
    Number(i128),
    Text(Cow<'n, [u8]>),
}

struct Entry<'n, 't> {
    order: Order<'n>,
    key: Scalar<'n>,
    /// Key as written, for paths.
    name: Cow<'n, str>,
    offset: usize,
    /// `None` if proto text omits it.
    value: Option<&'n Node<'t>>,
}

impl Encoder<'_> {
    pub(crate) fn map(
        &self,
        field: &FieldDescriptor,
        group: &[(FieldDescriptor, &Member<'_>)],
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (Kind::Message(entry_type), [(_, first), ..]) = (field.kind(), group) else {
            return Ok(());
        };
        let (key_field, value_field) =
            (entry_type.map_entry_key_field(), entry_type.map_entry_value_field());
        let mut entries = match self.dialect {
            Dialect::Text => self.text_entries(&key_field.kind(), group, at)?,
            Dialect::Json | Dialect::Yaml => {
                self.object_entries(&key_field.kind(), &first.value, at)?
            }
        };
        entries.sort_by(|a, b| a.order.cmp(&b.order));
        let mut pairs = entries.iter().zip(entries.iter().skip(1));
        if let Some((_, second)) = pairs.find(|(first, second)| first.order == second.order) {
            let kind = ErrorKind::DuplicateKey { key: at.path.quote(&second.name) };
            return Err(Fault::new(second.offset, at.path, kind));
        }

        for entry in &entries {
            let path = Path::Key(at.path, &entry.name);
            let at = Location { path: &path, ..at }.deeper(&path, entry.offset)?;
            if entry.value.is_some_and(|node| self.skips_value(&value_field.kind(), node, at)) {
                continue;
            }
            self.recover(put_nested(field.number(), out, |out| {
                entry.key.put_field(KEY, out);
                self.map_value(&value_field, entry.value, at, out)
            }))?;
        }
        Ok(())
    }

    /// Appends the value of an entry. Key and value are written even if they are defaults, as other
    /// implementations do.
    fn map_value(
        &self,
        field: &FieldDescriptor,
        node: Option<&Node<'_>>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match (field.kind(), node) {
            (_, None) => Ok(()),
            (kind, Some(node))
                if self.is_lenient() && node.value == Value::Null && !takes_null(field) =>
            {
                match kind {
                    Kind::Message(_) => wire::put_len(out, VALUE, &[]),
                    kind => Scalar::default_of(&kind).put_field(VALUE, out),
                }
                Ok(())
            }
            (_, Some(node)) if node.value == Value::Null && !takes_null(field) => {
                Err(at.wrong("a value for this key", node))
            }
            (Kind::Message(message), Some(node)) => self.nested(VALUE, &message, node, at, out),
            (kind, Some(node)) => {
                self.scalar(&kind, node, at)?.put_field(VALUE, out);
                Ok(())
            }
        }
    }

    /// Returns the entries of a JSON object, whose keys are strings for every key type.
    fn object_entries<'n, 't>(
        &self,
        key_kind: &Kind,
        node: &'n Node<'t>,
        at: Location<'_>,
    ) -> Result<Vec<Entry<'n, 't>>> {
        let Value::Object(members) = &node.value else { return Err(at.wrong("an object", node)) };
        members
            .iter()
            .map(|member| {
                let (order, key) = key_of_text(key_kind, &member.name).ok_or_else(|| {
                    let kind = ErrorKind::WrongValue {
                        expected: format!("a key of type {key_kind:?}"),
                        found: format!("{:?}", at.path.quote(&member.name)),
                    };
                    Fault::new(member.offset, at.path, kind)
                })?;
                let name = Cow::Borrowed(member.name.as_ref());
                Ok(Entry { order, key, name, offset: member.offset, value: Some(&member.value) })
            })
            .collect()
    }

    /// Returns the entries of proto text: messages with optional `key` and `value`.
    fn text_entries<'n, 't>(
        &self,
        key_kind: &Kind,
        group: &[(FieldDescriptor, &'n Member<'t>)],
        at: Location<'_>,
    ) -> Result<Vec<Entry<'n, 't>>> {
        self.elements(group, at)?
            .into_iter()
            .map(|node| {
                let Value::Object(members) = &node.value else {
                    return Err(at.wrong("a map entry `{ key: .. value: .. }`", node));
                };
                let (mut key, mut value) = (None, None);
                for member in members {
                    let slot = match member.name.as_ref() {
                        "key" => &mut key,
                        "value" => &mut value,
                        _ => return Err(at.wrong("only `key` and `value` in a map entry", node)),
                    };
                    if slot.replace(&member.value).is_some() {
                        let kind =
                            ErrorKind::DuplicateField { field: member.name.clone().into_owned() };
                        return Err(Fault::new(member.offset, at.path, kind));
                    }
                }
                let key = match key {
                    Some(key) => self.scalar(key_kind, key, at)?,
                    None => Scalar::default_of(key_kind),
                };
                Ok(Entry {
                    order: order_of(key_kind, &key),
                    name: name_of(&key),
                    key,
                    offset: node.offset,
                    value,
                })
            })
            .collect()
    }
}

fn key_of_text<'n>(kind: &Kind, text: &'n str) -> Option<(Order<'n>, Scalar<'n>)> {
    let number = || if is_number(text) { text.parse::<i128>().ok() } else { None };
    let key = match kind {
        Kind::String => Scalar::Len(Cow::Borrowed(text.as_bytes())),
        Kind::Bool => match text {
            "true" => Scalar::Varint(1),
            "false" => Scalar::Varint(0),
            _ => return None,
        },
        Kind::Int32 => Scalar::Varint(i64::from(i32::try_from(number()?).ok()?) as u64),
        Kind::Int64 => Scalar::Varint(i64::try_from(number()?).ok()? as u64),
        Kind::Uint32 => Scalar::Varint(u32::try_from(number()?).ok()?.into()),
        Kind::Uint64 => Scalar::Varint(u64::try_from(number()?).ok()?),
        Kind::Sint32 => {
            Scalar::Varint(super::scalar::zigzag(i32::try_from(number()?).ok()?.into()))
        }
        Kind::Sint64 => Scalar::Varint(super::scalar::zigzag(i64::try_from(number()?).ok()?)),
        Kind::Fixed32 => Scalar::Fixed32(u32::try_from(number()?).ok()?),
        Kind::Fixed64 => Scalar::Fixed64(u64::try_from(number()?).ok()?),
        Kind::Sfixed32 => Scalar::Fixed32(i32::try_from(number()?).ok()? as u32),
        Kind::Sfixed64 => Scalar::Fixed64(i64::try_from(number()?).ok()? as u64),
        _ => return None,
    };
    Some((order_of(kind, &key), key))
}

fn order_of<'n>(kind: &Kind, key: &Scalar<'n>) -> Order<'n> {
    match (kind, key) {
        (Kind::Int32 | Kind::Int64, Scalar::Varint(bits)) => Order::Number((*bits as i64).into()),
        (Kind::Sfixed32, Scalar::Fixed32(bits)) => Order::Number((*bits as i32).into()),
        (Kind::Sfixed64, Scalar::Fixed64(bits)) => Order::Number((*bits as i64).into()),
        (_, Scalar::Varint(bits) | Scalar::Fixed64(bits)) => Order::Number((*bits).into()),
        (_, Scalar::Fixed32(bits)) => Order::Number((*bits).into()),
        (_, Scalar::Len(bytes)) => Order::Text(bytes.clone()),
    }
}

fn name_of(key: &Scalar<'_>) -> Cow<'static, str> {
    match key {
        Scalar::Len(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        Scalar::Varint(value) | Scalar::Fixed64(value) => value.to_string().into(),
        Scalar::Fixed32(value) => value.to_string().into(),
    }
}
