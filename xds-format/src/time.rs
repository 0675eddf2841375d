//! Durations and timestamps in the form of the canonical JSON mapping.

use core::fmt::Write as _;

/// Seconds and nanoseconds of a `google.protobuf.Duration` or `Timestamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds {
    pub(crate) seconds: i64,
    pub(crate) nanos: i32,
}

/// Maximum of `google.protobuf.Duration`: about 10,000 years.
const MAX_DURATION: i64 = 315_576_000_000;
/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const MIN_TIMESTAMP: i64 = -62_135_596_800;
const MAX_TIMESTAMP: i64 = 253_402_300_799;

const SECONDS_PER_DAY: i64 = 86_400;

/// Whether the value is in the range of `google.protobuf.Duration` and both parts have one sign.
pub(crate) fn is_duration(Seconds { seconds, nanos }: Seconds) -> bool {
    seconds.abs() <= MAX_DURATION
        && nanos.abs() < 1_000_000_000
        && (seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0))
}

/// Whether the value is in the range of `google.protobuf.Timestamp`: the years 1 to 9999, with
/// nonnegative nanoseconds.
pub(crate) fn is_timestamp(Seconds { seconds, nanos }: Seconds) -> bool {
    (MIN_TIMESTAMP..=MAX_TIMESTAMP).contains(&seconds) && (0..1_000_000_000).contains(&nanos)
}

/// Parses a duration such as `1.5s`: seconds with up to nine decimals.
pub(crate) fn parse_duration(text: &str) -> Option<Seconds> {
    let number = text.strip_suffix('s')?;
    let unsigned = number.strip_prefix('-').unwrap_or(number);
    let sign = if unsigned.len() == number.len() { 1 } else { -1 };
    let (whole, nanos) = match unsigned.split_once('.') {
        None => (unsigned, 0),
        Some((whole, fraction)) => (whole, parse_nanos(fraction)?),
    };
    let seconds: i64 = parse_digits(whole)?;
    let duration = Seconds { seconds: sign * seconds, nanos: sign as i32 * nanos };
    is_duration(duration).then_some(duration)
}

pub(crate) fn print_duration(Seconds { seconds, nanos }: Seconds) -> String {
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let mut out = format!("{sign}{}", seconds.unsigned_abs());
    push_nanos(&mut out, nanos.unsigned_abs());
    out.push('s');
    out
}

/// Parses an RFC 3339 timestamp with any offset from UTC.
pub(crate) fn parse_timestamp(text: &str) -> Option<Seconds> {
    let number = |range: core::ops::Range<usize>| parse_digits(text.get(range)?);
    let mark = |at: usize, any_of: &[u8]| {
        text.as_bytes().get(at).is_some_and(|byte| any_of.contains(byte))
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let marks =
        mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt") && mark(13, b":") && mark(16, b":");
    if !marks || !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }

    let rest = text.get(19..)?;
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let nanos = match fraction.strip_prefix('.') {
        Some(digits) => parse_nanos(digits)?,
        None if fraction.is_empty() => 0,
        None => return None,
    };
    let seconds =
        days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second
            - parse_zone(zone)?;
    (MIN_TIMESTAMP..=MAX_TIMESTAMP).contains(&seconds).then_some(Seconds { seconds, nanos })
}

/// Prints an RFC 3339 timestamp in UTC. Returns `None` outside the years 1 to 9999.
pub(crate) fn print_timestamp(Seconds { seconds, nanos }: Seconds) -> Option<String> {
    if !(MIN_TIMESTAMP..=MAX_TIMESTAMP).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return None;
    }
    let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut out = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    push_nanos(&mut out, nanos.unsigned_abs());
    out.push('Z');
    Some(out)
}

/// Parses digits only. `str::parse` would accept a sign.
fn parse_digits(digits: &str) -> Option<i64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn parse_nanos(fraction: &str) -> Option<i32> {
    if fraction.len() > 9 {
        return None;
    }
    i32::try_from(parse_digits(fraction)? * 10_i64.pow(9 - fraction.len() as u32)).ok()
}

/// Appends 0, 3, 6 or 9 decimals.
fn push_nanos(out: &mut String, nanos: u32) {
    let _ = match nanos {
        0 => Ok(()),
        _ if nanos.is_multiple_of(1_000_000) => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => write!(out, ".{:06}", nanos / 1_000),
        _ => write!(out, ".{nanos:09}"),
    };
}

/// Parses a zone such as `Z`, `+01:00` or `-05:30` as seconds east of UTC.
fn parse_zone(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (parse_digits(hours)?, parse_digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01 in the proleptic Gregorian calendar. Years begin in March
/// here, so that the leap day comes last and the lengths of the earlier months follow a linear
/// formula.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: i64, nanos: i32) -> Option<Seconds> {
        Some(Seconds { seconds, nanos })
    }

    #[test]
    fn durations_parse_and_print_as_proto_json() {
        assert_eq!(parse_duration("5s"), seconds(5, 0));
        assert_eq!(parse_duration("1.5s"), seconds(1, 500_000_000));
        assert_eq!(parse_duration("-0.000000001s"), seconds(0, -1));
        assert_eq!(parse_duration("315576000000s"), seconds(315_576_000_000, 0));
        for text in [
            "5",
            "s",
            "5 s",
            "+5s",
            "5ms",
            "1.s",
            ".5s",
            "1.0000000000s",
            "315576000001s",
            "--1s",
            "1e3s",
            "",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!(print_duration(Seconds { seconds: 0, nanos: -250_000_000 }), "-0.250s");
        assert_eq!(print_duration(Seconds { seconds: 5, nanos: 0 }), "5s");
        assert_eq!(print_duration(Seconds { seconds: 1, nanos: 1_500 }), "1.000001500s");
    }

    #[test]
    fn timestamps_parse_and_print_as_rfc3339() {
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), seconds(0, 0));
        assert_eq!(
            parse_timestamp("2024-02-29T12:30:00.25+01:00"),
            seconds(1_709_206_200, 250_000_000)
        );
        assert_eq!(parse_timestamp("0001-01-01T00:00:00Z"), seconds(MIN_TIMESTAMP, 0));
        assert_eq!(parse_timestamp("9999-12-31T23:59:59Z"), seconds(MAX_TIMESTAMP, 0));
        for text in [
            "",
            "2023-02-29T00:00:00Z",
            "2023-01-01",
            "2023-01-01T00:00:00",
            "2023-01-01T24:00:00Z",
            "2023-13-01T00:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "2023-01-01T00:00:00.Z",
            "2023-01-01T00:00:00+1:00",
            "äääää",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
        assert_eq!(print_timestamp(Seconds { seconds: MAX_TIMESTAMP + 1, nanos: 0 }), None);
    }

    proptest! {
        #[test]
        fn timestamps_round_trip(seconds in MIN_TIMESTAMP..=MAX_TIMESTAMP, nanos in 0..1_000_000_000_i32) {
            let time = Seconds { seconds, nanos };
            prop_assert_eq!(parse_timestamp(&print_timestamp(time).unwrap()), Some(time));
        }

        #[test]
        fn durations_round_trip(seconds in -MAX_DURATION..=MAX_DURATION, nanos in 0..1_000_000_000_i32) {
            let duration = Seconds { seconds, nanos: if seconds < 0 { -nanos } else { nanos } };
            prop_assert_eq!(parse_duration(&print_duration(duration)), Some(duration));
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,40}") {
            let _ = (parse_duration(&text), parse_timestamp(&text));
        }
    }
}
