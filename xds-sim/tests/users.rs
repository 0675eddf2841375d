//! What users bring into a world: it is theirs that is tried out, and it is said whose fault something is.

use std::time::Duration;

use bytes::Bytes;
use xds_core::{Time, TypeUrl, server::Via};
use xds_sim::{
    Config, ControlPlane, Failure, Options, Reply, Tape, World, replay, run_seed, storm,
};

fn failure_of(config: &Config) -> Failure {
    let broken = (0..20).find_map(|seed| run_seed(seed, config).violation);
    broken.expect("it breaks a rule within twenty seeds")
}

fn mine(world: &mut World) {
    storm(world);
    world.fail("MINE", "Nobody comes to the end of this scenario.", "it has come to the end");
}

/// The text of a constant in a generated test.
fn constant(source: &str, name: &str) -> String {
    let (_, rest) = source.split_once(&format!("const {name}: &str =")).expect(name);
    let (literal, _) = rest.split_once(";\n").expect("its end");
    let literal = literal.trim().trim_matches('"');
    literal.split("\\\n").map(str::trim_start).collect()
}

/// The run of a generated test, made with this configuration.
fn run_again(source: &str, config: &Config) -> Option<Failure> {
    let options: Options = constant(source, "OPTIONS").parse().expect("options");
    let tape: Tape = constant(source, "TAPE").parse().expect("a tape");
    replay(&tape, &config.clone().with_fixed_options(options)).violation
}

#[test]
fn what_is_printed_of_a_users_run_is_not_said_to_be_a_storm() {
    let config = Config::new(mine);
    let failure = failure_of(&config);
    let source = failure.to_test();
    assert!(
        !source.contains("Config::default()"),
        "a storm of the same choices is fine:\n{source}"
    );
    let again = run_again(&source, &config).expect("it fails again with its own configuration");
    assert_eq!(again.violation.invariant, "MINE");
    let text = failure.to_text(None);
    assert!(!text.contains("xds sim replay"), "the command line knows nothing of it:\n{text}");
    assert!(text.contains(&format!("XDS_SIM_TAPE={} cargo test", failure.tape)), "{text}");
}

#[test]
fn the_command_line_is_told_the_options_where_they_were_not_drawn() {
    let config = Config::default().with_options(|it| it.clock_grain = Duration::from_secs(1_000));
    let failure = failure_of(&config);
    let text = failure.to_text(None);
    assert!(!text.contains("replay --tape"), "its options would be drawn:\n{text}");
    let (options, tape) = (failure.options.differences(), failure.tape_after_options());
    let again = format!("again: xds sim replay --options \"{options}\" --tape {tape}");
    assert!(text.contains(&again), "{again}\n{text}");
    let fixed = Config::default().with_fixed_options(options.parse().expect("options"));
    let again = replay(&tape, &fixed).violation.expect("it fails again");
    assert_eq!(again.violation.invariant, failure.violation.invariant);
}

/// A control plane that never comes to an end with a stream.
struct Babbler {
    stream: Option<u64>,
    reply: fn(u64) -> Reply,
}

impl ControlPlane for Babbler {
    fn opened(&mut self, stream: u64, _: &Via, _: Time) {
        self.stream = Some(stream);
    }
    fn request(&mut self, _: u64, _: &Bytes, _: Time) {}
    fn closed(&mut self, _: u64, _: Time) {}
    fn changed(&mut self, _: &TypeUrl, _: &str, _: Option<&Bytes>, _: Time) {}
    fn poll(&mut self) -> Option<Reply> {
        self.stream.map(self.reply)
    }
}

#[test]
fn a_control_plane_that_always_has_something_to_say_is_told() {
    let replies: [fn(u64) -> Reply; 2] = [
        |stream| Reply::Send(stream + 1_000, Bytes::new()),
        |stream| Reply::End(stream, 14, "again".into()),
    ];
    for reply in replies {
        let config = Config::default()
            .with_control_plane(move |_| Box::new(Babbler { stream: None, reply }));
        let violation = failure_of(&config).violation;
        assert_eq!(violation.invariant, "IC38", "{violation:?}");
        assert!(violation.what.contains("the control plane of server-0"), "{violation:?}");
    }
    println!("covers: IC38");
}
