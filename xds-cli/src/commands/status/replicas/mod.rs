//! Several replicas of a management server, as one status.
//!
//! | file | contents |
//! |---|---|
//! | `merge.rs` | replicas, clients and differing resources, from the reports of the replicas |
//! | `version.rs` | comparison of versions by revision and content |
//! | `text.rs` | output for people |
//! | `events.rs` | output formats `json` and `ndjson` |

mod events;
mod merge;
mod text;
mod version;

use futures_util::future::join_all;

use self::merge::{Answer, Merged, merge};
use super::{
    endpoint::{Endpoint, Wanted},
    fold::View,
    follow::Followed,
};
use crate::{
    args::StatusOutput,
    client_status::Filter,
    failure::Failure,
    output,
    text::{count, escaped},
};

/// Replicas to read.
#[derive(Debug)]
pub(super) struct Replicas<'a> {
    pub(super) endpoints: &'a [Endpoint],
    pub(super) filter: &'a Filter,
    pub(super) format: StatusOutput,
}

impl Replicas<'_> {
    /// Prints the status once.
    ///
    /// # Errors
    ///
    /// Returns an error if no replica can be read, if some cannot, or if resources differ.
    pub(super) async fn print(&self, view: View) -> Result<(), Failure> {
        let answers = self.answers().await;
        let merged = merge(&answers);
        let text = match self.format {
            StatusOutput::Json => events::document(&merged),
            StatusOutput::Ndjson => events::ndjson(&merged),
            StatusOutput::Table | StatusOutput::Yaml => text::text(&merged, view),
        };
        output::print(&text)?;
        match merged.verdict() {
            None => Ok(()),
            Some(verdict) => Err(none_answered(answers).unwrap_or(verdict)),
        }
    }

    /// Requests the status of all replicas at the same time.
    async fn answers(&self) -> Vec<Answer> {
        let requests = self.endpoints.iter().map(|endpoint| async move {
            let report = endpoint.report(Wanted::Status, self.filter).await;
            Answer { address: endpoint.address().to_owned(), report }
        });
        join_all(requests).await
    }
}

impl Merged<'_> {
    /// Returns what is wrong, as the failure of the command.
    fn verdict(&self) -> Option<Failure> {
        let unread = self.replicas.iter().filter(|it| it.state.is_err()).count();
        let mut wrong = Vec::new();
        if unread > 0 {
            wrong.push(format!("{unread} of {} cannot be read", replicas(self.replicas.len())));
        }
        match self.differing.len() {
            0 => {}
            1 => wrong.push("1 resource differs".to_owned()),
            more => wrong.push(format!("{more} resources differ")),
        }
        (!wrong.is_empty()).then(|| Failure::Replicas(wrong.join(", ")))
    }
}

fn replicas(number: usize) -> String {
    count(number as u64, "replica")
}

/// Returns the failure of the first replica if none has answered.
fn none_answered(answers: Vec<Answer>) -> Option<Failure> {
    if answers.iter().any(|answer| answer.report.is_ok()) {
        return None;
    }
    answers.into_iter().next()?.report.err()
}

impl Followed for Replicas<'_> {
    type Report = Vec<Answer>;

    fn name(&self) -> String {
        let addresses = self.endpoints.iter().map(|it| escaped(it.address()));
        addresses.collect::<Vec<_>>().join(", ")
    }

    async fn read(&self) -> Result<Vec<Answer>, Failure> {
        let answers = self.answers().await;
        if answers.iter().any(|answer| answer.report.is_ok()) {
            return Ok(answers);
        }
        Err(none_answered(answers).unwrap_or_else(|| Failure::Replicas("no replicas".to_owned())))
    }

    fn table(&self, answers: &Vec<Answer>, view: View) -> String {
        text::text(&merge(answers), view)
    }

    fn changes(
        &self,
        before: Option<&Vec<Answer>>,
        answers: &Vec<Answer>,
        view: View,
    ) -> Vec<String> {
        let before = before.map(|it| merge(it)).unwrap_or_default();
        let now = merge(answers);
        let changes = events::changes(&before, &now);
        match self.format {
            StatusOutput::Ndjson | StatusOutput::Json => {
                changes.into_iter().map(|change| output::event_line(change.to_event())).collect()
            }
            StatusOutput::Table | StatusOutput::Yaml => {
                changes.iter().map(|change| text::change(change, view)).collect()
            }
        }
    }
}
