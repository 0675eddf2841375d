//! Reader of `DiscoveryRequest` and `DeltaDiscoveryRequest`.

use super::walk::{Field, Fields, Malformed, fields, string_field};
use crate::service::Variant;

/// Request that was read once and is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Version that a state-of-the-world client has accepted.
    pub(crate) version: &'a str,
    /// Encoded `Node`, if present.
    pub(crate) node: Option<&'a [u8]>,
    pub(crate) type_url: &'a str,
    pub(crate) nonce: &'a str,
    /// Encoded `google.rpc.Status`; only its presence makes the request a NACK.
    // B04
    pub(crate) error_detail: Option<&'a [u8]>,
    /// Number of names that the server may have to remember.
    pub(crate) name_count: usize,
    /// Number of names to unsubscribe from.
    pub(crate) unsubscribed_count: usize,
    /// Number of names with versions that the client has.
    pub(crate) version_count: usize,
    pub(crate) longest_name: usize,
    /// Whether any subscribed name is written as a locator.
    // TP2
    pub(crate) name_form: NameForm,
    /// Whether any locator has dynamic parameters.
    pub(crate) parameters: Parameters,
    fields: &'static FieldNumbers,
    message: &'a [u8],
    /// Bytes to walk for names: those of `message` if it has names, otherwise empty.
    names: &'a [u8],
}

/// Form in which a client writes names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameForm {
    Names,
    /// Locators, which may have dynamic parameters.
    // TP2
    Locators,
}

/// Whether a request has dynamic parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Parameters {
    #[default]
    None,
    Dynamic,
}

/// Field numbers of one of the two messages; zero for fields that it does not have.
#[derive(Debug)]
struct FieldNumbers {
    version: u32,
    node: u32,
    type_url: u32,
    nonce: u32,
    error_detail: u32,
    subscribe: u32,
    subscribe_locators: u32,
    unsubscribe: u32,
    unsubscribe_locators: u32,
    initial_versions: u32,
}

const STATE_OF_THE_WORLD: FieldNumbers = FieldNumbers {
    version: 1,
    node: 2,
    type_url: 4,
    nonce: 5,
    error_detail: 6,
    subscribe: 3,
    subscribe_locators: 7,
    unsubscribe: 0,
    unsubscribe_locators: 0,
    initial_versions: 0,
};

const INCREMENTAL: FieldNumbers = FieldNumbers {
    version: 0,
    node: 1,
    type_url: 2,
    nonce: 6,
    error_detail: 7,
    subscribe: 3,
    subscribe_locators: 8,
    unsubscribe: 4,
    unsubscribe_locators: 9,
    initial_versions: 5,
};

/// Field `name` of a `ResourceLocator`.
const LOCATOR_NAME: u32 = 1;
/// Field `dynamic_parameters` of a `ResourceLocator`.
const LOCATOR_PARAMETERS: u32 = 2;
/// Fields of a map entry.
const KEY: u32 = 1;
const VALUE: u32 = 2;

impl<'a> Request<'a> {
    pub(crate) fn parse(message: &'a [u8], variant: Variant) -> Result<Self, Malformed> {
        let numbers = match variant {
            Variant::StateOfTheWorld => &STATE_OF_THE_WORLD,
            Variant::Incremental => &INCREMENTAL,
        };
        let mut request = Self {
            version: "",
            node: None,
            type_url: "",
            nonce: "",
            error_detail: None,
            name_count: 0,
            unsubscribed_count: 0,
            version_count: 0,
            longest_name: 0,
            name_form: NameForm::Names,
            parameters: Parameters::None,
            fields: numbers,
            message,
            names: &[],
        };
        for field in Fields::of(message) {
            request.take(field?)?;
        }
        Ok(request)
    }

    fn take(&mut self, field: Field<'a>) -> Result<(), Malformed> {
        let numbers = self.fields;
        match field.number {
            n if n == numbers.version => self.version = field.string()?,
            n if n == numbers.node => self.node = Some(field.block()?),
            n if n == numbers.type_url => self.type_url = field.string()?,
            n if n == numbers.nonce => self.nonce = field.string()?,
            n if n == numbers.error_detail => self.error_detail = Some(field.block()?),
            n if n == numbers.subscribe => self.count(field.string()?),
            n if n == numbers.unsubscribe => {
                self.unsubscribed_count += 1;
                self.measure(field.string()?);
            }
            n if n == numbers.subscribe_locators => {
                self.name_form = NameForm::Locators;
                let name = self.locator(field.block()?)?;
                self.count(name);
            }
            n if n == numbers.unsubscribe_locators => {
                let name = self.locator(field.block()?)?;
                self.unsubscribed_count += 1;
                self.measure(name);
            }
            n if n == numbers.initial_versions => {
                string_field(field.block()?, VALUE)?;
                self.version_count += 1;
                self.measure(string_field(field.block()?, KEY)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the name in a locator.
    fn locator(&mut self, locator: &'a [u8]) -> Result<&'a str, Malformed> {
        let name = string_field(locator, LOCATOR_NAME)?;
        if fields(locator, LOCATOR_PARAMETERS).next().is_some() {
            self.parameters = Parameters::Dynamic;
        }
        Ok(name)
    }

    fn count(&mut self, name: &str) {
        self.name_count += 1;
        self.measure(name);
    }

    fn measure(&mut self, name: &str) {
        self.names = self.message;
        self.longest_name = self.longest_name.max(name.len());
    }

    /// Whether the request has any names.
    pub(crate) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the listed names, or in the incremental variant the subscribed ones, in wire order
    /// and with repetitions; names of locators follow the others.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        named(self.names, self.fields.subscribe, self.fields.subscribe_locators)
    }

    /// Returns the names to unsubscribe from.
    pub(crate) fn unsubscribed(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        named(self.names, self.fields.unsubscribe, self.fields.unsubscribe_locators)
    }

    /// Returns the names and versions that an incremental client has from before the stream.
    pub(crate) fn initial_versions(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        fields(self.names, self.fields.initial_versions).filter_map(|field| {
            let entry = field.block().ok()?;
            Some((string_field(entry, KEY).ok()?, string_field(entry, VALUE).ok()?))
        })
    }
}

fn named<'a>(
    message: &'a [u8],
    names: u32,
    locators: u32,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let names = fields(message, names).filter_map(|field| field.string().ok());
    let locators = fields(message, locators)
        .filter_map(|field| string_field(field.block().ok()?, LOCATOR_NAME).ok());
    names.chain(locators)
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec, vec::Vec};

    use prost::Message as _;

    use crate::proto;
    use crate::wire::request::*;

    #[test]
    fn sotw_request_encoded_by_prost_is_parsed_in_place() {
        let message = proto::DiscoveryRequest {
            version_info: String::from("1"),
            node: Some(proto::Node { id: String::from("me"), ..Default::default() }),
            resource_names: vec![String::from("a"), String::from("bcd")],
            type_url: String::from("t/x"),
            response_nonce: String::from("n"),
            error_detail: Some(proto::Status::default()),
            ..Default::default()
        }
        .encode_to_vec();
        let request = Request::parse(&message, Variant::StateOfTheWorld).unwrap();
        assert_eq!((request.version, request.nonce, request.type_url), ("1", "n", "t/x"));
        assert_eq!(request.names().collect::<Vec<_>>(), ["a", "bcd"]);
        assert_eq!((request.name_count, request.longest_name), (2, 3));
        assert_eq!(request.error_detail, Some(&[][..]), "an empty status is a NACK all the same");
        assert!(request.node.is_some());
    }

    #[test]
    fn resource_names_that_are_not_utf8_are_rejected() {
        assert_eq!(
            Request::parse(&[0x1a, 1, 0xff], Variant::StateOfTheWorld).unwrap_err(),
            Malformed::Utf8 { field: 3 }
        );
    }

    #[test]
    fn delta_request_encoded_by_prost_is_parsed_in_place() {
        let locator =
            |name: &str| proto::ResourceLocator { name: name.into(), ..Default::default() };
        let message = proto::DeltaDiscoveryRequest {
            node: Some(proto::Node::default()),
            type_url: String::from("t/x"),
            resource_names_subscribe: vec![String::from("a")],
            resource_names_unsubscribe: vec![String::from("b")],
            resource_locators_subscribe: vec![locator("lll")],
            resource_locators_unsubscribe: vec![locator("m")],
            initial_resource_versions: [(String::from("i"), String::from("7"))].into(),
            response_nonce: String::from("n"),
            error_detail: None,
        }
        .encode_to_vec();
        let request = Request::parse(&message, Variant::Incremental).unwrap();
        assert_eq!((request.nonce, request.type_url, request.version), ("n", "t/x", ""));
        assert_eq!(request.names().collect::<Vec<_>>(), ["a", "lll"]);
        assert_eq!(request.unsubscribed().collect::<Vec<_>>(), ["b", "m"]);
        assert_eq!(request.initial_versions().collect::<Vec<_>>(), [("i", "7")]);
        assert_eq!((request.name_count, request.version_count, request.longest_name), (2, 1, 3));
        assert_eq!(request.unsubscribed_count, 2);
        assert_eq!((request.error_detail, request.name_form), (None, NameForm::Locators));
        assert_eq!(request.parameters, Parameters::None);
        let cut = [0x2a, 2, 0x0a, 5];
        assert!(Request::parse(&cut, Variant::Incremental).is_err(), "an entry that is cut off");
    }
}
