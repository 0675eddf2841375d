//! Measurements side by side, printed as ratios.

use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, measurement::WallTime};

/// The median time of each piece of work measured so far.
#[derive(Debug, Default)]
pub struct Ratios {
    medians: Vec<(&'static str, f64)>,
}

/// Fewer rounds than this give no median worth printing.
const ENOUGH: usize = 10;

impl Ratios {
    /// Measures `work` on what `prepare` makes anew for every round, whose cost does not count. What
    /// `work` returns is dropped outside of the measurement as well.
    pub fn measure<I, O>(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &'static str,
        mut prepare: impl FnMut() -> I,
        mut work: impl FnMut(I) -> O,
    ) {
        let mut times = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        let input = prepare();
                        let started = Instant::now();
                        let output = work(input);
                        let taken = started.elapsed();
                        drop(std::hint::black_box(output));
                        times.push(taken.as_secs_f64());
                        taken
                    })
                    .sum::<Duration>()
            });
        });
        // A test run takes a round or two, cold: a ratio of those would mean nothing.
        if times.len() < ENOUGH {
            return;
        }
        times.sort_by(f64::total_cmp);
        if let Some(&median) = times.get(times.len() / 2) {
            self.medians.push((name, median));
        }
    }

    /// Prints how many times as long as `baseline` the `work` took, and what it should be at most.
    pub fn print(&self, work: &str, baseline: &str, aim: Option<f64>) {
        let median = |name: &str| self.medians.iter().find(|(n, _)| *n == name).map(|(_, t)| *t);
        let Some((work_time, baseline_time)) = median(work).zip(median(baseline)) else { return };
        print_ratio(work, baseline, work_time / baseline_time, aim);
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
