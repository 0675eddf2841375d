//! How fast runs are made: events per second, with all oracles and with none.
//!
//!     cargo run --release -p xds-sim --example speed -- 3000
//!
//! An event is one delivery or one timer. What applications and operators do is not counted, but takes its
//! time. `Everything` or `Nothing` behind the number of runs measures with all oracles or none alone.

use std::{env, time::Instant};

use xds_sim::{Config, check::Judge, run_seed};

/// As the command line has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let runs = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3_000);
    for judge in [Judge::Everything, Judge::Nothing] {
        if env::args().nth(2).is_some_and(|only| only != format!("{judge:?}")) {
            continue;
        }
        let mut config = Config::default();
        config.judge = judge;
        let began = Instant::now();
        let mut events = 0;
        for seed in 0..runs {
            let outcome = run_seed(seed, &config);
            assert!(outcome.violation.is_none(), "seed {seed} breaks a rule");
            events += outcome.events;
        }
        let seconds = began.elapsed().as_secs_f64();
        let rate = events as f64 / seconds;
        println!("{judge:?}: {runs} runs, {events} events in {seconds:.2} s, {rate:.0} a second");
    }
}
