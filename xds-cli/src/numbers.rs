//! Numbers with separators, such as `1,234,567`.

use crate::text::count;

/// Formats a number with separators, such as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with a noun: `1 run`, `12,345 runs`.
pub(crate) fn grouped_count(number: u64, what: &str) -> String {
    match number {
        1 => count(1_u64, what),
        _ => format!("{} {what}s", grouped(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped_count(1, "run"), "1 run");
        assert_eq!(grouped_count(1_000, "run"), "1,000 runs");
    }
}
