//! Methods for an application that shares a source with other servers, and the state of that
//! source.

use core::time::Duration;
use std::sync::Arc;

use tonic::metadata::{MetadataMap, MetadataValue};
use xds_core::server::SourceStatus;

use super::{ServerEnded, ServerHandle};

/// State of the source of a server, at the time of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceReport {
    /// Revision up to which all changes of the source were applied; `None` before the first one, or
    /// if the revisions of the source are local to this server.
    pub revision: Option<u64>,
    /// Time since the source could last be read or watched; `None` while it is reachable.
    pub unreachable_for: Option<Duration>,
    /// Whether `unreachable_for` exceeds
    /// [`max_staleness`](xds_core::server::SourcePolicy::max_staleness), so that new clients are
    /// refused.
    pub is_stale: bool,
    /// Reason why the newest state of the source is [not
    /// served](xds_core::server::Server::source_refused); `None` if it is.
    pub refused: Option<Arc<str>>,
}

/// Metadata of the [revision](SourceReport::revision).
const REVISION: &str = "xds-source-revision";
/// Metadata of the [time](SourceReport::unreachable_for) in milliseconds.
const UNREACHABLE: &str = "xds-source-unreachable-ms";
/// Metadata that is present if the state [is stale](SourceReport::is_stale).
const STALE: &str = "xds-source-stale";
/// Metadata of the [refusal](SourceReport::refused), as UTF-8.
const REFUSED: &str = "xds-source-refused-bin";
/// Largest number of bytes of that metadata.
const REFUSED_BYTES: usize = 2_048;

impl SourceReport {
    /// Reads the metadata of a response of [client status
    /// discovery](crate::csds::ServerCsdsService). Returns `None` if the server has no source whose
    /// state it reports.
    #[must_use]
    pub fn from_metadata(metadata: &MetadataMap) -> Option<Self> {
        let number = |key| metadata.get(key)?.to_str().ok()?.parse().ok();
        let (revision, unreachable) = (number(REVISION), number(UNREACHABLE));
        let refused = metadata.get_bin(REFUSED).and_then(|it| it.to_bytes().ok());
        let refused = refused.map(|it| String::from_utf8_lossy(&it).into());
        if revision.is_none() && unreachable.is_none() && refused.is_none() {
            return None;
        }
        Some(Self {
            revision,
            unreachable_for: unreachable.map(Duration::from_millis),
            is_stale: metadata.contains_key(STALE),
            refused,
        })
    }

    /// Adds the state to the metadata of a response.
    pub(crate) fn add_to(self, metadata: &mut MetadataMap) {
        if let Some(revision) = self.revision {
            metadata.insert(REVISION, MetadataValue::from(revision));
        }
        if let Some(time) = self.unreachable_for {
            let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            metadata.insert(UNREACHABLE, MetadataValue::from(time));
        }
        if self.is_stale {
            metadata.insert(STALE, MetadataValue::from_static("true"));
        }
        if let Some(refused) = &self.refused {
            let mut end = REFUSED_BYTES.min(refused.len());
            while !refused.is_char_boundary(end) {
                end -= 1;
            }
            let refused = refused.get(..end).unwrap_or_default();
            let refused = MetadataValue::from_bytes(refused.as_bytes());
            metadata.insert_bin(REFUSED, refused);
        }
    }
}

impl ServerHandle {
    /// Reports that all changes of the source up to a revision were applied. See
    /// [`Server::source_reached`](xds_core::server::Server::source_reached) for the rules for
    /// replicas.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M257
    pub async fn source_reached(&self, revision: u64) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.source_reached(revision, now)).await
    }

    /// Answers [`ServerEvent::ConfirmSource`](xds_core::server::ServerEvent::ConfirmSource) with
    /// the newest revision of the source, from a linearizable read, or with `None` if the source
    /// does not provide one.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M258
    pub async fn source_confirmed(&self, revision: Option<u64>) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.source_confirmed(revision, now)).await
    }

    /// Reports that an attempt to confirm the revision of the source has failed. The caller should
    /// retry.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M259
    pub async fn source_confirmation_failed(&self) -> Result<(), ServerEnded> {
        self.with_server(|server, now| server.source_confirmation_failed(now)).await
    }

    /// Reports that reading or watching the source has failed. The last state stays in use.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M259
    pub async fn source_unreachable(&self) -> Result<(), ServerEnded> {
        self.with_server(|server, now| server.source_unreachable(now)).await
    }

    /// Sets the reason why the newest state of the source is not served, for the
    /// [report](SourceReport::refused); `None` once it is served.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn source_refused(&self, why: Option<Arc<str>>) -> Result<(), ServerEnded> {
        self.with_server(move |server, _| server.source_refused(why)).await
    }

    /// Returns the known state of the server's source.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn source_status(&self) -> Result<SourceStatus, ServerEnded> {
        self.with_server(|server, _| server.source_status()).await
    }

    /// Returns the revision that the server has reached, and for how long the source has been
    /// unreachable.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn source_report(&self) -> Result<SourceReport, ServerEnded> {
        self.with_server(|server, now| SourceReport {
            revision: server.source_status().revision,
            unreachable_for: server.source_unreachable_for(now),
            is_stale: server.is_stale(now),
            refused: server.refused_change(),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_read_as_it_is_written() {
        let report = SourceReport {
            revision: Some(7),
            unreachable_for: Some(Duration::from_millis(1_500)),
            is_stale: true,
            refused: None,
        };
        let refused = Some("change 1 is refused: 40 of 50 “clusters”".into());
        for report in [
            report,
            SourceReport { revision: Some(8), ..SourceReport::default() },
            SourceReport { refused, ..SourceReport::default() },
        ] {
            let mut metadata = MetadataMap::new();
            report.clone().add_to(&mut metadata);
            assert_eq!(SourceReport::from_metadata(&metadata), Some(report));
        }
        assert_eq!(SourceReport::from_metadata(&MetadataMap::new()), None);
        // A long reason is cut between characters.
        let mut metadata = MetadataMap::new();
        let refused = Some("é".repeat(2_000).into());
        SourceReport { refused, ..SourceReport::default() }.add_to(&mut metadata);
        let report = SourceReport::from_metadata(&metadata).unwrap();
        assert_eq!(report.refused.as_deref(), Some(&*"é".repeat(REFUSED_BYTES / 2)));
    }
}
