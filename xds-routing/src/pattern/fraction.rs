//! Shares of all calls.

use crate::{
    proto::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    random::Random,
};

/// A share of all calls, in millionths (S2.029).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u32);

impl Fraction {
    /// All calls.
    pub const ALL: Self = Self(1_000_000);

    /// That many of a million; more than a million is all (S2.031).
    #[must_use]
    pub const fn of_a_million(numerator: u32) -> Self {
        if numerator > Self::ALL.0 { Self::ALL } else { Self(numerator) }
    }

    /// The share in millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// Whether a call belongs to the share: a number drawn below a million is below it, so that a share
    /// of zero has none and one of a million has all (X24).
    #[must_use]
    pub fn draw(self, random: &mut Random) -> bool {
        random.below(Self::ALL.0) < self.0
    }

    /// Scales what the schema has to millionths (S2.122); `None` if the denominator is unknown.
    pub(crate) fn from_schema(percent: &FractionalPercent) -> Option<Self> {
        let scale = match DenominatorType::try_from(percent.denominator).ok()? {
            DenominatorType::Hundred => 10_000,
            DenominatorType::TenThousand => 100,
            DenominatorType::Million => 1,
        };
        Some(Self::of_a_million(percent.numerator.saturating_mul(scale)))
    }
}
