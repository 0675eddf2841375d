//! Reader of `DiscoveryRequest` and `DeltaDiscoveryRequest`.

use super::{
    name_lists::{NameCursor, NameList, NameLists},
    request_fields::{
        FieldNumbers, INCREMENTAL, KEY, LOCATOR_NAME, LOCATOR_PARAMETERS, STATE_OF_THE_WORLD, VALUE,
    },
    walk::{Field, Fields, Malformed, fields, string_field},
};
use crate::{service::Variant, source_version, text::name_units};

/// Request that was read once and is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Version that a state-of-the-world client has accepted.
    pub(crate) version: &'a str,
    /// Greatest source revision among the versions of an incremental request.
    initial_revision: u64,
    /// Encoded `Node`, if present.
    pub(crate) node: Option<&'a [u8]>,
    pub(crate) type_url: &'a str,
    pub(crate) nonce: &'a str,
    /// Encoded `google.rpc.Status`; only its presence makes the request a NACK.
    // B04
    pub(crate) error_detail: Option<&'a [u8]>,
    /// Number of names that the server may have to remember.
    pub(crate) name_count: usize,
    /// [Units](name_units) of these names.
    pub(crate) name_units: usize,
    /// Number of names to unsubscribe from.
    pub(crate) unsubscribed_count: usize,
    pub(crate) longest_name: usize,
    /// Whether any subscribed name is written as a locator.
    // TP2
    pub(crate) name_form: NameForm,
    /// Whether any locator has dynamic parameters.
    pub(crate) parameters: Parameters,
    fields: &'static FieldNumbers,
    /// Lists that have names.
    lists: NameLists,
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

impl<'a> Request<'a> {
    pub(crate) fn parse(message: &'a [u8], variant: Variant) -> Result<Self, Malformed> {
        let numbers = match variant {
            Variant::StateOfTheWorld => &STATE_OF_THE_WORLD,
            Variant::Incremental => &INCREMENTAL,
        };
        let mut request = Self {
            version: "",
            initial_revision: 0,
            node: None,
            type_url: "",
            nonce: "",
            error_detail: None,
            name_count: 0,
            name_units: 0,
            unsubscribed_count: 0,
            longest_name: 0,
            name_form: NameForm::Names,
            parameters: Parameters::None,
            fields: numbers,
            lists: NameLists::default(),
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
            n if n == numbers.subscribe => self.count(field.string()?, NameList::Subscribed),
            n if n == numbers.unsubscribe => {
                self.unsubscribed_count += 1;
                self.measure(field.string()?, NameList::Unsubscribed);
            }
            n if n == numbers.subscribe_locators => {
                self.name_form = NameForm::Locators;
                let name = self.locator(field.block()?)?;
                self.count(name, NameList::SubscribedLocators);
            }
            n if n == numbers.unsubscribe_locators => {
                let name = self.locator(field.block()?)?;
                self.unsubscribed_count += 1;
                self.measure(name, NameList::UnsubscribedLocators);
            }
            n if n == numbers.initial_versions => {
                let version = string_field(field.block()?, VALUE)?;
                let revision = source_version::revision_of(version);
                self.initial_revision = self.initial_revision.max(revision);
                self.measure(string_field(field.block()?, KEY)?, NameList::Versions);
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

    fn count(&mut self, name: &str, list: NameList) {
        self.name_count += 1;
        self.name_units += name_units(name.len());
        self.measure(name, list);
    }

    fn measure(&mut self, name: &str, list: NameList) {
        self.lists.insert(list);
        self.longest_name = self.longest_name.max(name.len());
    }

    /// Returns the greatest source revision that the client states to have; zero if it states none.
    pub(crate) fn stated_revision(&self) -> u64 {
        self.initial_revision.max(source_version::revision_of(self.version))
    }

    /// Returns the position before the first name.
    pub(crate) fn name_cursor(&self) -> NameCursor {
        NameCursor::new(self.fields, self.lists)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec, vec::Vec};

    use prost::Message as _;

    use crate::proto;
    use crate::wire::name_lists::{ListedName, NextName};
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
        assert_eq!(names_in(&request, &message), ["+a", "+bcd"]);
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
        assert_eq!(names_in(&request, &message), ["+a", "+lll", "-b", "-m", "i=7"]);
        assert_eq!((request.name_count, request.name_units, request.longest_name), (2, 2, 3));
        assert_eq!(request.unsubscribed_count, 2);
        assert_eq!((request.error_detail, request.name_form), (None, NameForm::Locators));
        assert_eq!(request.parameters, Parameters::None);
        let cut = [0x2a, 2, 0x0a, 5];
        assert!(Request::parse(&cut, Variant::Incremental).is_err(), "an entry that is cut off");
    }

    fn print(name: ListedName<'_>) -> String {
        match name {
            ListedName::Subscribed(name) => format!("+{name}"),
            ListedName::Unsubscribed(name) => format!("-{name}"),
            ListedName::Version(name, version) => format!("{name}={version}"),
        }
    }

    /// Returns the names of a request in the order in which they are applied.
    fn names_in(request: &Request<'_>, message: &[u8]) -> Vec<String> {
        let (mut cursor, mut left) = (request.name_cursor(), usize::MAX);
        let next = || match cursor.next(message, &mut left) {
            NextName::Name(name) => Some(print(name)),
            NextName::Paused | NextName::End => None,
        };
        core::iter::from_fn(next).collect()
    }

    fn request_with_all_lists() -> Vec<u8> {
        let locators = ["l", "m"].map(|name| proto::ResourceLocator {
            name: name.into(),
            ..proto::ResourceLocator::default()
        });
        proto::DeltaDiscoveryRequest {
            node: Some(proto::Node::default()),
            type_url: "t".into(),
            resource_names_subscribe: ["a", "b", "c"].map(String::from).into(),
            resource_names_unsubscribe: [String::from("d")].into(),
            resource_locators_subscribe: locators.into(),
            initial_resource_versions: [(String::from("v"), String::from("1"))].into(),
            ..proto::DeltaDiscoveryRequest::default()
        }
        .encode_to_vec()
    }

    #[test]
    fn names_read_in_parts_are_those_read_at_once() {
        let message = request_with_all_lists();
        let request = Request::parse(&message, Variant::Incremental).unwrap();
        let all = names_in(&request, &message);
        assert_eq!(all, ["+a", "+b", "+c", "+l", "+m", "-d", "v=1"]);
        for part in 1..12 {
            let (mut cursor, mut names, mut read) = (request.name_cursor(), Vec::new(), 0);
            loop {
                let mut left = part;
                let end = loop {
                    match cursor.next(&message, &mut left) {
                        NextName::Name(name) => names.push(print(name)),
                        end => break end,
                    }
                };
                read += part - left;
                if end == NextName::End {
                    break;
                }
                assert_eq!(left, 0, "a pause comes after a whole part");
            }
            assert_eq!(names, all, "parts of {part}");
            // Ten fields, once for each list that has names.
            assert_eq!(read, 4 * 9, "parts of {part}");
        }
    }

    #[test]
    fn lists_without_names_are_not_read() {
        let message = proto::DiscoveryRequest {
            resource_names: ["a", "b"].map(String::from).into(),
            ..proto::DiscoveryRequest::default()
        }
        .encode_to_vec();
        let request = Request::parse(&message, Variant::StateOfTheWorld).unwrap();
        let (mut cursor, mut left) = (request.name_cursor(), 2);
        assert_eq!(cursor.next(&message, &mut left), NextName::Name(ListedName::Subscribed("a")));
        assert_eq!(cursor.next(&message, &mut left), NextName::Name(ListedName::Subscribed("b")));
        assert_eq!((cursor.next(&message, &mut left), left), (NextName::End, 0));
    }

    #[test]
    fn versions_can_be_skipped() {
        let message = request_with_all_lists();
        let request = Request::parse(&message, Variant::Incremental).unwrap();
        let mut cursor = request.name_cursor().without_versions();
        let mut left = usize::MAX;
        let mut names = 0;
        while let NextName::Name(name) = cursor.next(&message, &mut left) {
            assert!(!matches!(name, ListedName::Version(..)));
            names += 1;
        }
        assert_eq!(names, 6);
    }
}
