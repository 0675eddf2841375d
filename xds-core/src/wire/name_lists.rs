//! Names of a request, read in parts.
//!
//! A request may list more names than may be handled without a pause. A [`NameCursor`] remembers how
//! far they were read; the request itself is kept by the owner of the cursor.

use super::{
    request_fields::{FieldNumbers, KEY, LOCATOR_NAME, VALUE},
    walk::{Field, Fields, string_field},
};

/// Lists of a request, in the order in which they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameList {
    /// Names that the request lists or, in the incremental variant, subscribes to.
    Subscribed,
    SubscribedLocators,
    Unsubscribed,
    UnsubscribedLocators,
    /// Names and versions that an incremental client has from before the stream.
    Versions,
}

impl NameList {
    const ALL: [Self; 5] = [
        Self::Subscribed,
        Self::SubscribedLocators,
        Self::Unsubscribed,
        Self::UnsubscribedLocators,
        Self::Versions,
    ];

    fn number(self, fields: &FieldNumbers) -> u32 {
        match self {
            Self::Subscribed => fields.subscribe,
            Self::SubscribedLocators => fields.subscribe_locators,
            Self::Unsubscribed => fields.unsubscribe,
            Self::UnsubscribedLocators => fields.unsubscribe_locators,
            Self::Versions => fields.initial_versions,
        }
    }

    fn read(self, field: Field<'_>) -> Option<ListedName<'_>> {
        let locator = || string_field(field.block().ok()?, LOCATOR_NAME).ok();
        Some(match self {
            Self::Subscribed => ListedName::Subscribed(field.string().ok()?),
            Self::SubscribedLocators => ListedName::Subscribed(locator()?),
            Self::Unsubscribed => ListedName::Unsubscribed(field.string().ok()?),
            Self::UnsubscribedLocators => ListedName::Unsubscribed(locator()?),
            Self::Versions => {
                let entry = field.block().ok()?;
                let version = string_field(entry, VALUE).ok()?;
                ListedName::Version(string_field(entry, KEY).ok()?, version)
            }
        })
    }
}

/// Set of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameLists(u8);

impl NameLists {
    pub(crate) fn insert(&mut self, list: NameList) {
        self.0 |= 1 << list as u8;
    }

    fn contains(self, list: NameList) -> bool {
        self.0 & 1 << list as u8 != 0
    }
}

/// Entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedName<'a> {
    Subscribed(&'a str),
    Unsubscribed(&'a str),
    /// Name and version that the client has.
    Version(&'a str, &'a str),
}

/// Result of reading the next name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextName<'a> {
    Name(ListedName<'a>),
    /// No more fields may be read now.
    Paused,
    End,
}

/// Position in the names of a request. Names are read in wire order and with repetitions; names of
/// locators follow the others of their list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameCursor {
    fields: &'static FieldNumbers,
    lists: NameLists,
    /// Index of the current list.
    list: usize,
    /// Offset of the next field.
    at: usize,
}

impl NameCursor {
    pub(super) fn new(fields: &'static FieldNumbers, lists: NameLists) -> Self {
        Self { fields, lists, list: 0, at: 0 }
    }

    /// Skips the versions.
    pub(crate) fn without_versions(mut self) -> Self {
        self.lists.0 &= !(1 << NameList::Versions as u8);
        self
    }

    /// Whether any list has names.
    pub(crate) fn is_empty(self) -> bool {
        self.lists == NameLists::default()
    }

    /// Reads the next name of `message`, which is the message of the request. Reads at most `left`
    /// fields, and subtracts those that it read.
    pub(crate) fn next<'a>(&mut self, message: &'a [u8], left: &mut usize) -> NextName<'a> {
        while let Some(&list) = NameList::ALL.get(self.list) {
            if self.lists.contains(list) {
                let number = list.number(self.fields);
                let mut fields = Fields::at(message, self.at);
                while fields.position() < message.len() {
                    if *left == 0 {
                        self.at = fields.position();
                        return NextName::Paused;
                    }
                    *left -= 1;
                    // The message was read before, so it has no errors.
                    let Some(Ok(field)) = fields.next() else { break };
                    if field.number == number
                        && let Some(name) = list.read(field)
                    {
                        self.at = fields.position();
                        return NextName::Name(name);
                    }
                }
            }
            (self.list, self.at) = (self.list + 1, 0);
        }
        NextName::End
    }
}
