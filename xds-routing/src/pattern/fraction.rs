//! Fractions of all calls.

use crate::{
    proto::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    random::Random,
};

/// Fraction of all calls, in millionths.
// S2.029
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u32);

impl Fraction {
    /// All calls.
    pub const ALL: Self = Self(1_000_000);

    /// Creates a fraction from its millionths. Larger values mean all calls.
    // S2.031
    #[must_use]
    pub const fn from_millionths(numerator: u32) -> Self {
        if numerator > Self::ALL.0 { Self::ALL } else { Self(numerator) }
    }

    /// Returns the fraction in millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// Decides at random whether a call is in the fraction. A fraction of zero contains no call,
    /// [`ALL`](Self::ALL) contains every call.
    // X24
    #[must_use]
    pub fn draw(self, random: &mut Random) -> bool {
        random.below(Self::ALL.0) < self.0
    }

    /// Converts the schema's fraction to millionths. Returns `None` if the denominator is unknown.
    // S2.122
    pub(crate) fn from_schema(percent: &FractionalPercent) -> Option<Self> {
        let scale = match DenominatorType::try_from(percent.denominator).ok()? {
            DenominatorType::Hundred => 10_000,
            DenominatorType::TenThousand => 100,
            DenominatorType::Million => 1,
        };
        Some(Self::from_millionths(percent.numerator.saturating_mul(scale)))
    }
}
