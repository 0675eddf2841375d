//! What a comparison finds: a rule, the element that breaks it, and what breaks with it.

use core::fmt;

/// A change between two versions of a schema that breaks somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Break {
    /// The full name of what changed, as the old schema has it; of what is new, as the new one has
    /// it. Of a file, its path.
    pub element: String,
    /// The rule that the change breaks.
    pub rule: Rule,
    /// What changed, in words.
    pub change: String,
    /// On which axes somebody breaks; all others stay as they were.
    pub broken: Axes,
    /// Why it does not count, if it does not.
    pub exemption: Option<Exemption>,
}

impl Break {
    /// Whether it counts: something is broken, and nothing excuses it.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.exemption.is_none() && !self.broken.is_empty()
    }
}

/// `acme.Thing.size: number 3 is now 4 (field-renumbered; breaks binary)`.
impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element, rule, change, broken, exemption } = self;
        write!(f, "{element}: {change} ({rule}; breaks {broken}")?;
        match exemption {
            None => f.write_str(")"),
            Some(exemption) => write!(f, "; exempt: {exemption})"),
        }
    }
}

/// One way in which two versions of a schema have to get along (S4.064).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Axis {
    /// The binary encoding: what one version writes, the other misreads.
    Binary,
    /// JSON, YAML and the text format, which carry names (S4.052, S4.054, S4.055).
    Text,
    /// The type URL of a message in an `Any` (S4.049).
    TypeUrl,
    /// The path of a method over gRPC (S4.058).
    ServicePath,
    /// The path of a method over plain HTTP, from its annotation (S4.059).
    RestPath,
    /// The constraints of protoc-gen-validate: values that were allowed are refused (B16).
    Validation,
    /// Programs that use generated code have to be edited: churn, not a break of the protocol
    /// (S4.060).
    Code,
    /// The rules of evolution themselves: removed without a deprecation first (S4.045), a number
    /// left free to be used again (S4.041).
    Policy,
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Binary,
        Self::Text,
        Self::TypeUrl,
        Self::ServicePath,
        Self::RestPath,
        Self::Validation,
        Self::Code,
        Self::Policy,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Text => "text",
            Self::TypeUrl => "type-url",
            Self::ServicePath => "service-path",
            Self::RestPath => "rest-path",
            Self::Validation => "validation",
            Self::Code => "code",
            Self::Policy => "policy",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Some of the axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Axes(u8);

impl Axes {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Whether it is one of them.
    #[must_use]
    pub const fn contains(self, axis: Axis) -> bool {
        self.0 & axis.bit() != 0
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// These without one.
    #[must_use]
    pub const fn without(self, axis: Axis) -> Self {
        Self(self.0 & !axis.bit())
    }

    /// These and another one.
    #[must_use]
    pub const fn with(self, axis: Axis) -> Self {
        Self(self.0 | axis.bit())
    }

    /// The same, if something is so.
    pub(crate) const fn with_if(self, is_so: bool, axis: Axis) -> Self {
        if is_so { self.with(axis) } else { self }
    }

    /// They, in the order of [`Axis::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Axis> {
        Axis::ALL.into_iter().filter(move |axis| self.contains(*axis))
    }
}

impl<const N: usize> From<[Axis; N]> for Axes {
    fn from(axes: [Axis; N]) -> Self {
        axes.into_iter().collect()
    }
}

impl FromIterator<Axis> for Axes {
    fn from_iter<I: IntoIterator<Item = Axis>>(axes: I) -> Self {
        axes.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        for (index, axis) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{axis}")?;
        }
        Ok(())
    }
}

/// Why a change does not count (B16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exemption {
    /// The package has an alpha version, as in `acme.thing.v3alpha`.
    Alpha,
    /// The file, message or field was annotated `work_in_progress` in the old schema.
    WorkInProgress,
}

impl fmt::Display for Exemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "alpha",
            Self::WorkInProgress => "work in progress",
        })
    }
}

/// Defines the rules with their names in reports.
macro_rules! rules {
    ($($(#[$doc:meta])+ $rule:ident = $id:literal,)+) => {
        /// A rule of evolution that a change can break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])+ $rule,)+
        }

        impl Rule {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)+];

            /// Its name in reports, which stays.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$rule => $id,)+
                }
            }
        }
    };
}

rules! {
    /// A field has another number (S4.037).
    FieldRenumbered = "field-renumbered",
    /// A field has another type, which is encoded in another way (S4.038).
    FieldRetyped = "field-retyped",
    /// A field has another type that is encoded in the same way: the bytes can be read, values
    /// outside of the new type are lost (S4.038).
    FieldRetypedCompatibly = "field-retyped-compatibly",
    /// A number stands for another field than before (S4.041).
    NumberReused = "number-reused",
    /// A name that was reserved is in use again (S4.041).
    NameReused = "name-reused",
    /// What was removed left its number or its name free to be used again (S4.041).
    RemovalNotReserved = "removal-not-reserved",
    /// A field has another name (S4.052, S4.053, S4.066).
    FieldRenamed = "field-renamed",
    /// A field has another name in JSON.
    FieldJsonNameChanged = "field-json-name-changed",
    /// A field is gone (S4.045).
    FieldRemoved = "field-removed",
    /// A single value became a list (S4.040, X40).
    FieldToRepeated = "field-to-repeated",
    /// A list became a single value.
    FieldToSingular = "field-to-singular",
    /// A map became something else, or something else a map.
    FieldMapChanged = "field-map-changed",
    /// A field moved into a oneof of its own (S4.039, X40).
    FieldIntoOneof = "field-into-oneof",
    /// Fields that could be set together now exclude each other.
    FieldsJoinedInOneof = "fields-joined-in-oneof",
    /// Fields that excluded each other can now be set together.
    FieldOutOfOneof = "field-out-of-oneof",
    /// A oneof has another name.
    OneofRenamed = "oneof-renamed",
    /// A field can newly tell absence from its default, or no longer.
    FieldPresenceChanged = "field-presence-changed",
    /// A field became required, ceased to be, or is new and required (proto2).
    FieldRequiredChanged = "field-required-changed",
    /// The default of a field is another one (proto2).
    FieldDefaultChanged = "field-default-changed",
    /// A constraint refuses what was allowed (S4.062, X40, B16).
    ConstraintTightened = "constraint-tightened",
    /// The value of an enum that stands for an unset field has another meaning (S4.042).
    EnumDefaultChanged = "enum-default-changed",
    /// A value of an enum is gone (S4.045).
    EnumValueRemoved = "enum-value-removed",
    /// A value of an enum has another number (S4.037).
    EnumValueRenumbered = "enum-value-renumbered",
    /// A value of an enum has another name (S4.052).
    EnumValueRenamed = "enum-value-renamed",
    /// An enum is gone (S4.045).
    EnumRemoved = "enum-removed",
    /// An enum has another full name (S4.060).
    EnumMoved = "enum-moved",
    /// A message is gone (S4.045).
    MessageRemoved = "message-removed",
    /// A message has another full name: its package, the message around it, or its own name
    /// (S4.048, S4.049, S4.067).
    MessageMoved = "message-moved",
    /// A definition stands in another file (S4.048, S4.060).
    FileMoved = "file-moved",
    /// A service is gone (S4.045).
    ServiceRemoved = "service-removed",
    /// A service has another full name (S4.058).
    ServiceMoved = "service-moved",
    /// A method is gone (S4.045).
    MethodRemoved = "method-removed",
    /// A method takes or gives another message.
    MethodTypeChanged = "method-type-changed",
    /// A method streams where it did not, or no longer does.
    MethodStreamingChanged = "method-streaming-changed",
    /// A path over plain HTTP is gone or another one (S4.059).
    RestPathChanged = "rest-path-changed",
    /// A path over plain HTTP takes its request, or gives its response, in another form.
    RestBodyChanged = "rest-body-changed",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
