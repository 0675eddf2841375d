//! Results of a comparison: the changed element, the rule that it breaks, and the affected axes.

use core::fmt;

/// Breaking change between two versions of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Break {
    /// Full name of the changed element in the old schema, or in the new schema if the element is
    /// new. For a file, its path.
    pub element: String,
    /// Rule that the change breaks.
    pub rule: Rule,
    /// Description of the change.
    pub change: String,
    /// Axes on which the change is breaking.
    pub broken: Axes,
    /// Reason for which the change does not count, if there is one.
    pub exemption: Option<Exemption>,
}

impl Break {
    /// Whether the change counts: it breaks at least one axis and is not exempt.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.exemption.is_none() && !self.broken.is_empty()
    }
}

/// Formats a change as `acme.Thing.size: number 3 is now 4 (field-renumbered; breaks binary)`.
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

/// Aspect in which two versions of a schema must be compatible.
// S4.064
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Axis {
    /// The binary encoding: one version misreads the output of the other.
    Binary,
    /// JSON, YAML and the text format, which contain names.
    // S4.052, S4.054, S4.055
    Text,
    /// The type URL of a message in an `Any`.
    // S4.049
    TypeUrl,
    /// The gRPC path of a method.
    // S4.058
    ServicePath,
    /// The HTTP path of a method, from its `google.api.http` annotation.
    // S4.059
    RestPath,
    /// The constraints of protoc-gen-validate: values that were allowed are rejected.
    // B16
    Validation,
    /// Source code that uses generated code must be edited. The protocol itself does not break.
    // S4.060
    Code,
    /// The rules for changing an API: a removal without prior deprecation, or a number or name left
    /// free for reuse.
    // S4.045, S4.041
    Policy,
}

impl Axis {
    /// All axes.
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

    /// Returns the name of the axis in reports.
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

/// Set of axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Axes(u8);

impl Axes {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether the set contains an axis.
    #[must_use]
    pub const fn contains(self, axis: Axis) -> bool {
        self.0 & axis.bit() != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the set without an axis.
    #[must_use]
    pub const fn without(self, axis: Axis) -> Self {
        Self(self.0 & !axis.bit())
    }

    /// Returns the set with an additional axis.
    #[must_use]
    pub const fn with(self, axis: Axis) -> Self {
        Self(self.0 | axis.bit())
    }

    /// Returns the set with an additional axis if `is_so` is true.
    pub(crate) const fn with_if(self, is_so: bool, axis: Axis) -> Self {
        if is_so { self.with(axis) } else { self }
    }

    /// Iterates over the axes in the order of [`Axis::ALL`].
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

/// Reason for which a breaking change does not count.
// B16
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
        /// Rule of schema evolution that a change can break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])+ $rule,)+
        }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)+];

            /// Returns the name of the rule in reports, which is stable.
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
    /// A field has another number.
    // S4.037
    FieldRenumbered = "field-renumbered",
    /// A field has another type with a different encoding.
    // S4.038
    FieldRetyped = "field-retyped",
    /// A field has another type with the same encoding. The bytes can be read, but values outside
    /// the new type are lost.
    // S4.038
    FieldRetypedCompatibly = "field-retyped-compatibly",
    /// A number belongs to another field than before.
    // S4.041
    NumberReused = "number-reused",
    /// A reserved name is in use again.
    // S4.041
    NameReused = "name-reused",
    /// A removed definition left its number or its name free for reuse.
    // S4.041
    RemovalNotReserved = "removal-not-reserved",
    /// A field has another name.
    // S4.052, S4.053, S4.066
    FieldRenamed = "field-renamed",
    /// A field has another name in JSON.
    FieldJsonNameChanged = "field-json-name-changed",
    /// A field was removed.
    // S4.045
    FieldRemoved = "field-removed",
    /// A singular field became repeated.
    // S4.040, X40
    FieldToRepeated = "field-to-repeated",
    /// A repeated field became singular.
    FieldToSingular = "field-to-singular",
    /// A map field became another kind of field, or another field became a map.
    FieldMapChanged = "field-map-changed",
    /// A field moved into a oneof without other old fields.
    // S4.039, X40
    FieldIntoOneof = "field-into-oneof",
    /// Fields that could be set together are now mutually exclusive.
    FieldsJoinedInOneof = "fields-joined-in-oneof",
    /// Mutually exclusive fields can now be set together.
    FieldOutOfOneof = "field-out-of-oneof",
    /// A oneof has another name.
    OneofRenamed = "oneof-renamed",
    /// A field gained or lost explicit presence.
    FieldPresenceChanged = "field-presence-changed",
    /// A field became required, is no longer required, or is new and required (proto2).
    FieldRequiredChanged = "field-required-changed",
    /// The default value of a field changed (proto2).
    FieldDefaultChanged = "field-default-changed",
    /// A constraint rejects values that were allowed.
    // S4.062, X40, B16
    ConstraintTightened = "constraint-tightened",
    /// The default value of an enum, which unset fields have, has another meaning.
    // S4.042
    EnumDefaultChanged = "enum-default-changed",
    /// An enum value was removed.
    // S4.045
    EnumValueRemoved = "enum-value-removed",
    /// An enum value has another number.
    // S4.037
    EnumValueRenumbered = "enum-value-renumbered",
    /// An enum value has another name.
    // S4.052
    EnumValueRenamed = "enum-value-renamed",
    /// An enum was removed.
    // S4.045
    EnumRemoved = "enum-removed",
    /// An enum has another full name.
    // S4.060
    EnumMoved = "enum-moved",
    /// A message was removed.
    // S4.045
    MessageRemoved = "message-removed",
    /// A message has another full name: its package, its parent message or its own name changed.
    // S4.048, S4.049, S4.067
    MessageMoved = "message-moved",
    /// A definition moved to another file.
    // S4.048, S4.060
    FileMoved = "file-moved",
    /// A service was removed.
    // S4.045
    ServiceRemoved = "service-removed",
    /// A service has another full name.
    // S4.058
    ServiceMoved = "service-moved",
    /// A method was removed.
    // S4.045
    MethodRemoved = "method-removed",
    /// A method has another request or response type.
    MethodTypeChanged = "method-type-changed",
    /// A method began or ceased to stream requests or responses.
    MethodStreamingChanged = "method-streaming-changed",
    /// An HTTP path of a method was removed or changed.
    // S4.059
    RestPathChanged = "rest-path-changed",
    /// An HTTP path has another mapping of the request or response to the body.
    RestBodyChanged = "rest-body-changed",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
