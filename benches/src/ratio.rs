//! Measurements in the same run, printed as ratios.

use std::time::Duration;

use criterion::{BenchmarkGroup, measurement::WallTime};

use crate::stopwatch::Stopwatch;

/// Median and 99th percentile of the times of each measured piece of work.
#[derive(Debug, Default)]
pub struct Ratios {
    medians: Vec<(String, f64)>,
    tails: Vec<(String, f64)>,
}

/// Minimum number of rounds for a 99th percentile.
const ENOUGH_FOR_TAILS: usize = 100;

/// Minimum number of rounds for a median.
const ENOUGH: usize = 10;

impl Ratios {
    /// Measures `work` on a value that `prepare` creates for every round. The time for creating the
    /// value, and for dropping the result of `work`, does not count.
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

    /// Measures the parts of a round that returns their times, for work that can only be
    /// done in sequence.
    ///
    /// The name of a part is the name of the round and its own: `"round: part"`.
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

    /// Returns the median time of a piece of work in seconds, if there were enough rounds.
    #[must_use]
    pub fn median(&self, name: &str) -> Option<f64> {
        self.medians.iter().find(|(n, _)| *n == name).map(|(_, time)| *time)
    }

    fn keep(&mut self, name: String, mut times: Vec<f64>) {
        // A test run makes one or two cold rounds, which give no meaningful ratio.
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

    /// Prints the 99th percentile of the times, and its ratio to that of the `baseline`.
    pub fn print_tails(&self, work: &str, baseline: &str) {
        let tail = |name: &str| self.tails.iter().find(|(n, _)| n == name).map(|(_, time)| *time);
        let Some((work_time, baseline_time)) = tail(work).zip(tail(baseline)) else { return };
        println!("P99    {work} = {:.0} us", work_time * 1e6);
        print_ratio(&format!("P99 of {work}"), baseline, work_time / baseline_time, None);
    }

    /// Prints the ratio of the times of `work` and `baseline`, and whether it meets the `aim`.
    pub fn print(&self, work: &str, baseline: &str, aim: Option<f64>) {
        self.print_per(work, 1, baseline, 1, aim);
    }

    /// Prints the ratio of the time per unit of `work` and the time per unit of `baseline`.
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

    /// Prints the time of `work`, and whether it meets the `aim`.
    pub fn print_time(&self, work: &str, aim: Duration) {
        let Some(time) = self.median(work) else { return };
        let verdict = if time <= aim.as_secs_f64() { "met" } else { "missed" };
        println!("time   {work} = {:.0} us  aim <= {} us: {verdict}", time * 1e6, aim.as_micros());
    }
}

/// Prints a ratio, and whether it meets the `aim`.
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
