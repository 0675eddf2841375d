//! Agreement of a client's metrics with its state.

use std::collections::BTreeMap;

use xds_core::client::{Instrument, MetricsExporter};

use super::{Event, Oracle, Report, Rule};
use crate::world::{Watched, World};

const RESOURCES: Rule = Rule::new(
    "IC32",
    "a client's resource counter equals its status and, if all watches are by name, the watched names",
);
const GROWTH: Rule = Rule::new("IC32", "total counters never decrease");

/// Checks the metrics of clients.
#[derive(Debug, Default)]
pub(super) struct CounterAgreement {
    /// Counter values of each client at the last check.
    totals: BTreeMap<usize, Totals>,
}

/// Counter values by instrument and labels.
type Totals = BTreeMap<String, u64>;

/// Metrics of a client at one time.
struct Moment<'a> {
    resources: u64,
    before: &'a mut Totals,
    /// Instrument and labels of the current counter.
    what: String,
    report: &'a mut Report,
}

impl MetricsExporter for Moment<'_> {
    fn counter(&mut self, what: Instrument, labels: &[(&'static str, &str)], total: u64) {
        let Self { what: text, before, report, .. } = self;
        // Formatting thousands of counters would be slow.
        text.clear();
        text.push_str(what.name());
        for (label, value) in labels {
            [" ", label, "=", value].into_iter().for_each(|part| text.push_str(part));
        }
        match before.get_mut(text) {
            Some(known) => {
                let before = std::mem::replace(known, total);
                report
                    .ensure(total >= before, GROWTH, || format!("{text}: {total} after {before}"));
            }
            None => drop(before.insert(text.clone(), total)),
        }
    }

    fn gauge(&mut self, what: Instrument, _: &[(&'static str, &str)], value: u64) {
        if what == Instrument::Resources {
            self.resources += value;
        }
    }
}

/// Number of watched names, or `None` if there are wildcards, globs or aliases.
fn watched(client: usize, world: &World) -> Option<usize> {
    let of_types = (0..world.types().len()).map(|kind| world.watched(client, kind));
    // A resource watched by two names counts as one or two.
    let is_plain =
        of_types.clone().all(Watched::is_of_single_ones) && !world.options().has_aliases();
    is_plain.then(|| of_types.map(|watched| watched.count()).sum())
}

impl CounterAgreement {
    /// Compares all counters with their previous values, and returns the number of resources.
    fn measure(&mut self, client: usize, world: &World, report: &mut Report) -> usize {
        let before = self.totals.entry(client).or_default();
        let mut moment = Moment { resources: 0, before, what: String::new(), report };
        world.client(client).metrics().export("sim", &mut moment);
        usize::try_from(moment.resources).unwrap_or(usize::MAX)
    }

    fn check(&mut self, client: usize, world: &World, report: &mut Report) {
        let counted = self.measure(client, world, report);
        let shown = world.client(client).status().count();
        let names = watched(client, world).unwrap_or(shown);
        agree(client, [counted, shown, names], report);
    }
}

/// Compares the numbers of resources in metrics, of resources in the status, and of watched names.
fn agree(client: usize, [counted, shown, names]: [usize; 3], report: &mut Report) {
    report.ensure(counted == shown && counted == names, RESOURCES, || {
        format!("client-{client} counts {counted}, shows {shown}, and {names} are watched")
    });
}

impl Oracle for CounterAgreement {
    fn rules(&self) -> &'static [Rule] {
        &[RESOURCES, GROWTH]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Rest => {
                (0..world.client_count()).for_each(|client| self.check(client, world, report));
            }
            Event::EndedAtClient { link, .. } => {
                let client = world.link(link).client;
                self.measure(client, world, report);
            }
            Event::ClientRestarted { client } => {
                self.totals.remove(&client);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        options::Options,
        oracle::testing::{broken_rule, judgement},
    };

    #[test]
    fn decreasing_counters_are_detected() {
        let found = judgement(|world, _, report| {
            let mut oracle = CounterAgreement::default();
            oracle.check(0, world, report);
            assert!(report.breach.is_none() && !oracle.totals.is_empty(), "{:?}", report.breach);
            oracle.totals.values_mut().flat_map(Totals::values_mut).for_each(|total| *total += 1);
            oracle.check(0, world, report);
        });
        assert_eq!(found, Some("IC32"));
        println!("covers: IC32");
    }

    #[test]
    fn decreasing_metric_total_is_detected() {
        let found = broken_rule(Options::default(), |world, _, report| {
            world.watch(0, 0, Some("r0"));
            CounterAgreement::default().check(0, world, report);
            assert!(report.breach.is_none(), "it is the same one: {:?}", report.breach);
            let mut before = Totals::default();
            for total in [2, 1] {
                assert!(report.breach.is_none(), "{:?}", report.breach);
                let what = String::new();
                let mut moment = Moment { resources: 0, before: &mut before, what, report };
                moment.counter(Instrument::ServerFailure, &[("server", "one")], total);
            }
        });
        assert_eq!(found, Some(GROWTH));
    }

    #[test]
    fn resource_counts_that_disagree_are_detected() {
        let agrees = |figures| {
            broken_rule(Options::default(), move |_, _, report| agree(0, figures, report))
        };
        assert_eq!(agrees([2, 2, 2]), None);
        for figures in [[3, 2, 2], [2, 3, 2], [2, 2, 3]] {
            assert_eq!(agrees(figures), Some(RESOURCES));
        }
        println!("covers: IC32");
    }
}
