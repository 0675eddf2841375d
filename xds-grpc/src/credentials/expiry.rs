//! Times at which a server's files expire, each reported once.

use core::{
    iter,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use tracing::warn;
use webpki::{EndEntityCert, KeyUsage};

/// File of a server's credentials that expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ExpiringFile {
    /// The server's own certificate.
    Certificate,
    /// Root certificates for client certificates. An expired one is still trusted.
    ClientAuthority,
    /// Certificate revocation lists. An expired one is still used.
    RevocationList,
}

/// Time at which a file expires.
#[derive(Debug)]
pub(super) struct Expiry {
    file: PathBuf,
    pub(super) kind: ExpiringFile,
    /// Seconds since 1970.
    at: u64,
    is_reported: AtomicBool,
}

impl Expiry {
    /// Returns when a certificate expires; `None` if it is not valid X.509. A certificate that has expired
    /// already counts as reported, because reading it has reported that.
    pub(super) fn of_certificate(file: &Path, certificate: &CertificateDer<'_>) -> Option<Self> {
        let at = not_after(certificate)?;
        let is_reported = AtomicBool::new(at < UnixTime::now().as_secs());
        Some(Self { file: file.to_owned(), kind: ExpiringFile::Certificate, at, is_reported })
    }

    /// Returns when a root certificate expires; `None` if it is not valid X.509. An expired one is not
    /// reported, because it is still trusted.
    pub(super) fn of_root(file: &Path, certificate: &CertificateDer<'_>) -> Option<Self> {
        let at = not_after(certificate)?;
        Some(Self {
            file: file.to_owned(),
            kind: ExpiringFile::ClientAuthority,
            at,
            is_reported: true.into(),
        })
    }

    /// Returns when a revocation list expires; `None` if it does not state that.
    pub(super) fn of_list(file: &Path, list: &CertificateRevocationListDer<'_>) -> Option<Self> {
        let (at, is_reported) = (next_update(list)?, AtomicBool::new(false));
        Some(Self { file: file.to_owned(), kind: ExpiringFile::RevocationList, at, is_reported })
    }

    /// Returns the time at which the file expires; `None` if it exceeds the range of the clock.
    pub(super) fn at(&self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.at))
    }

    /// Warns if the file has expired, once.
    pub(super) fn report(&self) {
        if self.at >= UnixTime::now().as_secs() || self.is_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let file = self.file.display();
        match self.kind {
            ExpiringFile::ClientAuthority => {}
            ExpiringFile::Certificate => {
                warn!(%file, "the certificate has expired, so peers may refuse it: renew it");
            }
            ExpiringFile::RevocationList => warn!(
                %file,
                "the certificate revocation list (CRL) has expired, so it may lack certificates that were \
                 revoked since: renew it"
            ),
        }
    }
}

/// Returns the end of a certificate's validity.
fn not_after(certificate: &CertificateDer<'_>) -> Option<u64> {
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match time_error(certificate, end_of_time)? {
        webpki::Error::CertExpired { not_after, .. } => Some(not_after.as_secs()),
        _ => None,
    }
}

/// Returns the error about the validity of a certificate at a time, or another error if there is none
/// about that. `None` if the certificate is not valid X.509.
pub(super) fn time_error(certificate: &CertificateDer<'_>, at: UnixTime) -> Option<webpki::Error> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    // Without trust anchors, verification fails, but it checks the times first.
    let usage = KeyUsage::server_auth();
    certificate.verify_for_usage(&[], &[], &[], at, usage, None, None).err()
}

/// Returns the time at which a newer list is available at the latest ([RFC 5280, section 5.1]).
///
/// [RFC 5280, section 5.1]: https://www.rfc-editor.org/rfc/rfc5280#section-5.1
fn next_update(list: &[u8]) -> Option<u64> {
    let (_, signed) = elements(list).next()?;
    let (_, list) = elements(signed).next()?;
    // The first time is the one at which the list was issued.
    let mut times = elements(list).filter(|(tag, _)| matches!(*tag, UTC_TIME | GENERALIZED_TIME));
    let (tag, text) = times.nth(1)?;
    seconds(tag, text)
}

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns the elements of a sequence in DER with their tags, up to the first invalid one.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    iter::from_fn(move || {
        let (&[tag, length], mut rest) = bytes.split_first_chunk()?;
        let length = match length.checked_sub(0x80) {
            None => usize::from(length),
            Some(size @ 1..=4) => {
                let (length, content) = rest.split_at_checked(size.into())?;
                rest = content;
                length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte))
            }
            Some(_) => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        bytes = after;
        Some((tag, content))
    })
}

/// Parses a time of the form `[YY]YYMMDDHHMMSSZ`. Returns the seconds since 1970.
fn seconds(tag: u8, text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = text.split_at_checked(if tag == UTC_TIME { 2 } else { 4 })?;
    let year: u64 = year.parse().ok()?;
    let year = match tag {
        UTC_TIME if year < 50 => 2000 + year,
        UTC_TIME => 1900 + year,
        _ => year,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    // Years begin in March here, so that a leap day is the last day of a year.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day;
    // March 1, year 0 is day 1.
    let days = days.checked_sub(719_469)?;
    Some(days * 86_400 + part(4)? * 3_600 + part(6)? * 60 + part(8)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for (tag, text, expected) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "240229235959Z", Some(1_709_251_199)),
            (UTC_TIME, "991231000000Z", Some(946_598_400)),
            (GENERALIZED_TIME, "20500301000001Z", Some(2_529_705_601)),
            (GENERALIZED_TIME, "21000301000000Z", Some(4_107_542_400)),
            (GENERALIZED_TIME, "00000101000000Z", None),
            (UTC_TIME, "69", None),
            (UTC_TIME, "700101Z", None),
            (UTC_TIME, "70\u{e9}101000000Z", None),
        ] {
            assert_eq!(seconds(tag, text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn invalid_lists_state_no_time() {
        for list in [
            &b""[..],
            b"\x30",
            b"\x30\x80",
            b"\x30\x88",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x02\x30\x05",
        ] {
            assert_eq!(next_update(list), None, "{list:?}");
        }
    }
}
