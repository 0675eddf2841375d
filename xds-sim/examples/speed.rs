//! Measures the speed of runs in events per second, with all oracles and without any.
//!
//!     cargo run --release -p xds-sim --example speed -- 3000
//!
//! The first argument is the number of runs. An event is one delivery or one timer; operations of
//! applications and operators are not counted, but take time. A second argument `Everything` or
//! `Nothing` measures only with all oracles or without any.

use std::{env, time::Instant};

use xds_sim::{Config, check::OracleMode, run_seed};

/// Allocator that the command line uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let runs = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3_000);
    for oracle_mode in [OracleMode::On, OracleMode::Off] {
        if env::args().nth(2).is_some_and(|only| only != format!("{oracle_mode:?}")) {
            continue;
        }
        let mut config = Config::default();
        config.oracle_mode = oracle_mode;
        let began = Instant::now();
        let mut events = 0;
        for seed in 0..runs {
            let outcome = run_seed(seed, &config);
            assert!(outcome.violation.is_none(), "seed {seed} breaks a rule");
            events += outcome.events;
        }
        let seconds = began.elapsed().as_secs_f64();
        let rate = events as f64 / seconds;
        println!(
            "{oracle_mode:?}: {runs} runs, {events} events in {seconds:.2} s, {rate:.0} a second"
        );
    }
}
