//! Measurements side by side, printed as ratios.

use std::time::Duration;

use criterion::{BenchmarkGroup, measurement::WallTime};

use crate::stopwatch::Stopwatch;

/// The median time of each piece of work measured so far, and that which one in a hundred rounds exceeds.
#[derive(Debug, Default)]
pub struct Ratios {
    medians: Vec<(String, f64)>,
    tails: Vec<(String, f64)>,
}

/// Fewer rounds than this have no slowest hundredth.
const ENOUGH_FOR_TAILS: usize = 100;

/// Fewer rounds than this give no median worth printing.
const ENOUGH: usize = 10;

impl Ratios {
    /// Measures `work` on what `prepare` makes anew for every round, whose cost does not count. What
    /// `work` returns is dropped outside of the measurement as well.
    pub fn measure<I, O>(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        mut prepare: impl FnMut() -> I,
        mut work: impl FnMut(I) -> O,
    ) {
        let mut times = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        let input = prepare();
                        let started = Stopwatch::start();
                        let output = work(input);
                        let taken = started.elapsed();
                        drop(std::hint::black_box(output));
                        times.push(taken.as_secs_f64());
                        taken
                    })
                    .sum::<Duration>()
            });
        });
        self.keep(name.to_owned(), times);
    }

    /// Measures the parts of a round, which says itself how long each of them took: for work that can
    /// only be done in turns. A part is found under the name of the round and its own: `"round: part"`.
    pub fn measure_parts<const N: usize>(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        parts: [&str; N],
        mut round: impl FnMut() -> [Duration; N],
    ) {
        let mut times = [const { Vec::new() }; N];
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        let taken = round();
                        times.iter_mut().zip(taken).for_each(|(t, it)| t.push(it.as_secs_f64()));
                        taken.iter().sum::<Duration>()
                    })
                    .sum::<Duration>()
            });
        });
        for (part, times) in parts.into_iter().zip(times) {
            self.keep(format!("{name}: {part}"), times);
        }
    }

    /// The median time of a piece of work, in seconds, if it was measured often enough.
    #[must_use]
    pub fn median(&self, name: &str) -> Option<f64> {
        self.medians.iter().find(|(n, _)| *n == name).map(|(_, time)| *time)
    }

    fn keep(&mut self, name: String, mut times: Vec<f64>) {
        // A test run takes a round or two, cold: a ratio of those would mean nothing.
        if times.len() < ENOUGH {
            return;
        }
        times.sort_by(f64::total_cmp);
        if times.len() >= ENOUGH_FOR_TAILS
            && let Some(&tail) = times.get(times.len() * 99 / 100)
        {
            self.tails.push((name.clone(), tail));
        }
        if let Some(&median) = times.get(times.len() / 2) {
            self.medians.push((name, median));
        }
    }

    /// Prints how long the slowest hundredth of the rounds took at least, as a multiple of the same of the
    /// `baseline`.
    pub fn print_tails(&self, work: &str, baseline: &str) {
        let tail = |name: &str| self.tails.iter().find(|(n, _)| n == name).map(|(_, time)| *time);
        let Some((work_time, baseline_time)) = tail(work).zip(tail(baseline)) else { return };
        println!("P99    {work} = {:.0} us", work_time * 1e6);
        print_ratio(&format!("P99 of {work}"), baseline, work_time / baseline_time, None);
    }

    /// Prints how many times as long as `baseline` the `work` took, and what it should be at most.
    pub fn print(&self, work: &str, baseline: &str, aim: Option<f64>) {
        self.print_per(work, 1, baseline, 1, aim);
    }

    /// Prints how many times as long one of `units` of the `work` took as one of `of_units` of the
    /// `baseline`.
    pub fn print_per(
        &self,
        work: &str,
        units: usize,
        baseline: &str,
        of_units: usize,
        aim: Option<f64>,
    ) {
        let times = self.median(work).zip(self.median(baseline));
        let Some((work_time, baseline_time)) = times else { return };
        let each = |time: f64, units: usize| time / units as f64;
        let per = |units: usize| if units == 1 { String::new() } else { format!(", of {units}") };
        print_ratio(
            &format!("{work}{}", per(units)),
            &format!("{baseline}{}", per(of_units)),
            each(work_time, units) / each(baseline_time, of_units),
            aim,
        );
    }

    /// Prints how long the `work` took, where the aim is a time.
    pub fn print_time(&self, work: &str, aim: Duration) {
        let Some(time) = self.median(work) else { return };
        let verdict = if time <= aim.as_secs_f64() { "met" } else { "missed" };
        println!("time   {work} = {:.0} us  aim <= {} us: {verdict}", time * 1e6, aim.as_micros());
    }
}

/// Prints a ratio, and what it should be at most.
pub fn print_ratio(work: &str, baseline: &str, ratio: f64, aim: Option<f64>) {
    let verdict = match aim {
        Some(aim) if ratio <= aim => format!("  aim <= {aim}: met"),
        Some(aim) => format!("  aim <= {aim}: missed"),
        None => String::new(),
    };
    println!("ratio  {work} / {baseline} = {ratio:.3}{verdict}");
}

/// Whether the benchmarks only have to show that they run: `cargo bench -- --test`.
#[must_use]
pub fn is_test_run() -> bool {
    std::env::args().any(|argument| argument == "--test")
}
