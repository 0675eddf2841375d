//! What a client counts is what there is to count.

use std::collections::BTreeMap;

use xds_core::client::{Instrument, MetricsExporter};

use super::{Event, Oracle, Report, Rule};
use crate::world::{Watched, World};

const RESOURCES: Rule = Rule::new(
    "IC32",
    "the resources that a client counts are those that it shows, and, where all are watched by name, those names",
);
const GROWTH: Rule = Rule::new("IC32", "what is counted in all never becomes less");

/// Judges what clients measure.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// The totals of each client when it was last asked: by client, instrument and labels.
    totals: BTreeMap<(usize, String), u64>,
}

/// What a client measures at a moment.
#[derive(Debug, Default)]
struct Moment {
    resources: u64,
    totals: Vec<(String, u64)>,
}

impl MetricsExporter for Moment {
    fn counter(&mut self, what: Instrument, labels: &[(&'static str, &str)], total: u64) {
        self.totals.push((format!("{} {labels:?}", what.name()), total));
    }

    fn gauge(&mut self, what: Instrument, _: &[(&'static str, &str)], value: u64) {
        if what == Instrument::Resources {
            self.resources += value;
        }
    }
}

/// The names that are watched, if that is all.
fn watched(client: usize, world: &World) -> Option<usize> {
    let of_types = (0..world.types().len()).map(|kind| world.watched(client, kind));
    // A resource that is watched by two names is one or two.
    let is_plain =
        of_types.clone().all(Watched::is_of_single_ones) && !world.options().has_aliases();
    is_plain.then(|| of_types.map(|watched| watched.names().count()).sum())
}

impl Figures {
    fn compare(&mut self, client: usize, moment: Moment, report: &mut Report) {
        for (what, total) in moment.totals {
            let before = self.totals.insert((client, what.clone()), total).unwrap_or_default();
            report.ensure(total >= before, GROWTH, || format!("{what}: {total} after {before}"));
        }
    }

    fn look(&mut self, client: usize, world: &World, report: &mut Report) {
        let mut moment = Moment::default();
        world.client(client).metrics().export("sim", &mut moment);
        let counted = usize::try_from(moment.resources).unwrap_or(usize::MAX);
        let shown = world.client(client).status().count();
        let names = watched(client, world).unwrap_or(shown);
        agree(client, [counted, shown, names], report);
        self.compare(client, moment, report);
    }
}

/// Of a client, how many resources it counts and shows, and how many names are watched.
fn agree(client: usize, [counted, shown, names]: [usize; 3], report: &mut Report) {
    report.ensure(counted == shown && counted == names, RESOURCES, || {
        format!("client-{client} counts {counted}, shows {shown}, and {names} are watched")
    });
}

impl Oracle for Figures {
    fn rules(&self) -> &'static [Rule] {
        &[RESOURCES, GROWTH]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Rest => {
                (0..world.client_count()).for_each(|client| self.look(client, world, report));
            }
            Event::EndedAtClient { link, .. } => {
                let client = world.link(link).client;
                let mut moment = Moment::default();
                world.client(client).metrics().export("sim", &mut moment);
                self.compare(client, moment, report);
            }
            Event::ClientRestarted { client } => {
                self.totals.retain(|(owner, _), _| *owner != client);
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
    fn what_grows_less_is_found_out() {
        let found = judgement(|world, _, report| {
            let mut oracle = Figures::default();
            oracle.look(0, world, report);
            assert!(report.breach.is_none() && !oracle.totals.is_empty(), "{:?}", report.breach);
            oracle.totals.values_mut().for_each(|total| *total += 1);
            oracle.look(0, world, report);
        });
        assert_eq!(found, Some("IC32"));
        println!("covers: IC32");
    }

    #[test]
    fn a_total_that_grows_less_is_found_out() {
        let found = broken_rule(Options::default(), |world, _, report| {
            world.watch(0, 0, Some("r0"));
            Figures::default().look(0, world, report);
            assert!(report.breach.is_none(), "it is the same one: {:?}", report.breach);
            let mut oracle = Figures::default();
            let moment = Moment { resources: 0, totals: vec![("failures".into(), 2)] };
            oracle.compare(0, moment, report);
            assert!(report.breach.is_none(), "{:?}", report.breach);
            let moment = Moment { resources: 0, totals: vec![("failures".into(), 1)] };
            oracle.compare(0, moment, report);
        });
        assert_eq!(found, Some(GROWTH));
    }

    #[test]
    fn a_name_too_many_is_found_out() {
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
