//! User-defined applications, control planes, oracles and scenarios, and attribution of failures to
//! them.

use std::{
    collections::BTreeMap,
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    time::Duration,
};

use bytes::Bytes;
use xds_core::{Time, TypeUrl, WatchId, client::Notice, server::StreamKind};
use xds_sim::{
    Application, Config, ControlPlane, Failure, Options, Reply, Situation, Tape, World, check,
    exhaust,
    options::Lie,
    oracle::{Event, Oracle, Report, Rule},
    replay, run_seed, sometimes, storm,
    storm::settle,
};

fn failure_of(config: &Config) -> Failure {
    let broken = (0..20).find_map(|seed| run_seed(seed, config).violation);
    broken.expect("it breaks a rule within twenty seeds")
}

/// Returns the message with which [`check`] panics.
fn panic_message(config: &Config, scenario: impl Fn(&mut World) + Send + Sync + 'static) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| check(config, scenario)));
    let panic = panic.expect_err("something is wrong");
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("it is told in words")
}

fn mine(world: &mut World) {
    storm(world);
    world.fail("MINE", "Nobody comes to the end of this scenario.", "it has come to the end");
}

/// Returns the value of a string constant in a generated test.
fn constant(source: &str, name: &str) -> String {
    let (_, rest) = source.split_once(&format!("const {name}: &str =")).expect(name);
    let (literal, _) = rest.split_once(";\n").expect("its end");
    let literal = literal.trim().trim_matches('"');
    literal.split("\\\n").map(str::trim_start).collect()
}

/// Makes the run of a generated test with this configuration.
fn run_again(source: &str, config: &Config) -> Option<Failure> {
    let options: Options = constant(source, "OPTIONS").parse().expect("options");
    let tape: Tape = constant(source, "TAPE").parse().expect("a tape");
    replay(&tape, &config.clone().with_fixed_options(options)).violation
}

#[test]
fn custom_scenario_failure_is_not_printed_as_a_storm() {
    let config = Config::new(mine);
    let failure = failure_of(&config);
    let source = failure.to_test();
    assert!(
        !source.contains("Config::default()"),
        "a storm of the same choices is fine:\n{source}"
    );
    let again = run_again(&source, &config).expect("it fails again with its own configuration");
    assert_eq!(again.violation.invariant, "MINE");
    // A tape is explained.
    assert!(
        again.to_test().contains("//! Found in a run that was repeated from its tape, the list")
    );
    let text = failure.to_text(None);
    assert!(!text.contains("xds sim replay"), "the command line knows nothing of it:\n{text}");
    assert!(text.contains(&format!("XDS_SIM_TAPE={} cargo test", failure.tape)), "{text}");
}

#[test]
fn operation_on_what_a_run_lacks_is_reported_at_the_call_of_the_scenario() {
    type Scenario = fn(&mut World);
    let operations: [(Scenario, &str); 6] = [
        (|world| _ = world.watch(9, 0, None), "there is no client 9: the run has 1"),
        (|world| _ = world.watch(0, 9, None), "there is no kind 9: the run has 4"),
        (|world| world.set(9, "r0", "a"), "there is no kind 9: the run has 4"),
        (|world| world.delete(9, "r0"), "there is no kind 9: the run has 4"),
        (|world| world.reset_connection(9, 0, 14), "there is no client 9: the run has 1"),
        (|world| world.reset_connection(0, 9, 14), "there is no server 9: the run has 1"),
    ];
    for (operation, expected) in operations {
        let config = Config::new(operation).with_fixed_options(Options::default());
        let text = failure_of(&config).to_text(None);
        assert!(text.contains(expected) && text.contains("users.rs:"), "{text}");
    }
}

#[test]
fn resource_of_any_name_may_be_watched() {
    let scenario = |world: &mut World| {
        world.watch(0, 0, Some("backend"));
        world.set(0, "backend", "content");
        settle(world);
    };
    let config = Config::default().with_runs(20);
    // Runs with lies check that nothing else is stored.
    let config = config.with_options(|it| it.lies = [Lie::Truncate].into_iter().collect());
    assert_eq!(check(&config, scenario).runs, 20);
}

#[test]
#[should_panic(expected = "no run: the range of seeds 7..7 is empty")]
fn test_without_runs_fails() {
    let mut config = Config::default().with_runs(0);
    config.first_seed = 7;
    check(&config, storm);
}

#[test]
fn repeat_command_includes_options_that_were_not_drawn() {
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

/// A control plane that replies endlessly.
struct Babbler {
    stream: Option<u64>,
    reply: fn(u64) -> Reply,
}

impl ControlPlane for Babbler {
    fn opened(&mut self, stream: u64, _: &StreamKind, _: Time) {
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
fn endless_output_of_a_custom_control_plane_is_detected() {
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

#[test]
fn options_out_of_range_are_rejected() {
    for (word, field) in [
        ("servers=0", "servers"),
        ("servers=4", "servers"),
        ("names=0", "names"),
        ("clients=0", "clients"),
        ("types=9", "types"),
        ("types=0", "types"),
        ("views=3", "views"),
        ("operations=4000000000", "operations"),
        ("jitter=90000s", "jitter"),
        ("latency=99999999999999s", "latency"),
    ] {
        let error = word.parse::<Options>().expect_err(word).to_string();
        assert!(error.contains(field), "{word}: {error}");
    }
    let text = "types=9 actions={empty}".parse::<Options>().expect_err("nine").to_string();
    assert!(text.contains("from 1 to 4"), "{text}");
    let text = panic_message(&Config::default().with_options(|it| it.servers = 0), storm);
    assert!(text.contains("servers=0") && text.contains("from 1 to 3"), "{text}");
}

#[test]
fn assertion_failure_is_attributed_to_the_scenario() {
    let config = Config::new(|world: &mut World| {
        world.advance(Duration::from_secs(1));
        assert!(world.client_count() > 9, "too few clients");
    });
    let violation = failure_of(&config).violation;
    assert_eq!(violation.invariant, "scenario", "{violation:?}");
    assert!(violation.what.contains("too few clients"), "{violation:?}");
    assert!(violation.what.contains("tests/it/users.rs"), "it says where: {violation:?}");
}

/// An application that panics at each notice.
struct Fragile;

impl Application for Fragile {
    fn notified(&mut self, _: WatchId, _: &TypeUrl, _: Option<&str>, _: &Notice) {
        panic!("not now");
    }
}

#[test]
fn panic_of_an_application_is_attributed_to_it() {
    let config = Config::default().with_application(|_| Box::new(Fragile));
    let violation = failure_of(&config).violation;
    assert_eq!(violation.invariant, "application", "{violation:?}");
    assert!(violation.what.contains("not now"), "{violation:?}");
}

#[test]
fn panic_while_creating_a_world_is_reported_with_its_seed() {
    let config =
        Config::default().with_application(|_| -> Box<dyn Application> { panic!("no way") });
    let failure = failure_of(&config);
    assert_eq!(failure.violation.invariant, "application", "{:?}", failure.violation);
    assert_eq!(failure.seed, Some(0));
}

#[test]
fn config_scenario_and_check_scenario_cannot_be_combined_silently() {
    let text = panic_message(&Config::new(mine).with_runs(2), storm);
    assert!(text.contains("scenario"), "{text}");
    assert!(panic_message(&Config::default().with_runs(1), mine).contains("VIOLATION MINE"));
    assert!(panic_message(&Config::new(mine).with_runs(1), mine).contains("VIOLATION MINE"));
}

#[test]
fn scenario_that_waits_forever_ends_with_the_run() {
    let violation = failure_of(&Config::new(|world: &mut World| {
        world.fail("MINE", "It must not begin.", "it began");
        while world.client(0).status().count() == 0 {
            world.advance(Duration::from_secs(1));
        }
    }));
    assert_eq!(violation.violation.invariant, "MINE");
    let endless = failure_of(&Config::new(|world: &mut World| {
        while world.client(0).status().count() == 0 {
            world.advance(Duration::from_secs(1));
        }
    }));
    assert_eq!(endless.violation.invariant, "scenario");
}

/// Uses a child process, because the environment is global.
#[test]
fn environment_variables_are_applied_or_rejected() {
    const CHILD: &str = "XDS_SIM_TEST_CHILD";
    if env::var(CHILD).is_ok() {
        let config = Config::default().with_environment();
        println!("seed {} runs {}", config.first_seed, config.runs);
        return;
    }
    let say = |seed: &str| {
        let mut command = Command::new(env::current_exe().expect("a test has a file"));
        command.args([
            "--exact",
            "users::environment_variables_are_applied_or_rejected",
            "--nocapture",
        ]);
        let output = command.env(CHILD, "1").env("XDS_SIM_SEED", seed).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    assert!(say("0x5eed").contains("seed 24301 runs 1"));
    assert!(say("seed").contains("XDS_SIM_SEED=seed is not a number"), "{}", say("seed"));
}

/// Tapes whose first answer is out of range, or which are longer than the run, and the message.
#[test]
fn tape_of_another_run_is_not_a_success() {
    const CHILD: &str = "XDS_SIM_TEST_CHILD";
    if env::var(CHILD).is_ok() {
        println!("{} run", check(&Config::default(), storm).runs);
        println!("{} of all", exhaust(&Config::default(), "operation", storm).runs);
        return;
    }
    let say = |tape: &Tape| {
        let mut command = Command::new(env::current_exe().expect("a test has a file"));
        command.args(["--exact", "users::tape_of_another_run_is_not_a_success", "--nocapture"]);
        command.env(CHILD, "1").env("XDS_SIM_TAPE", tape.to_string());
        let output = command.output().expect("it starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (is_fine, told) = say(&run_seed(7, &Config::default()).tape);
    assert!(is_fine && told.contains("1 run") && told.contains("1 of all"), "{told}");
    let another = "XDS_SIM_TAPE: the tape does not fit the run: ";
    let (is_fine, told) = say(&Tape::from_values([5_000]));
    let part = format!("{another}answer 1 is out of range for the choice \"lies\"");
    assert!(!is_fine && told.contains(&part), "{told}");
    let (is_fine, told) = say(&Tape::from_values([&[0; 5_000][..], &[1]].concat()));
    assert!(!is_fine && told.contains(&format!("{another}it has 5001 answers, but")), "{told}");
}

/// A run that breaks a rule stops, so the rest of its tape is no evidence of drift.
#[test]
fn stopped_run_does_not_count_as_drift() {
    let config = Config::new(|world: &mut World| {
        for number in 0..10 {
            if world.choices().below("number", 10) == 7 && number == 5 {
                world.fail("MINE", "The sixth number must not be seven.", "it is");
            }
            world.advance(Duration::from_secs(1));
        }
    });
    let config = config.with_fixed_options(Options::default());
    let outcome = replay(&Tape::from_values([0, 1, 1, 1, 1, 1, 7, 1, 1]), &config);
    assert!(outcome.violation.is_some(), "{outcome:?}");
    assert_eq!(outcome.drift, None);
}

const FEW: Rule = Rule::new("few-responses", "a run has three responses at most");

/// An oracle that fails runs with more than a few responses.
#[derive(Default)]
struct FewResponses {
    responses: u32,
}

impl Oracle for FewResponses {
    fn rules(&self) -> &'static [Rule] {
        &[FEW]
    }

    fn on_event(&mut self, event: &Event<'_>, _: &World, report: &mut Report) {
        if let Event::Responded { .. } = event {
            self.responses += 1;
            report.ensure(self.responses <= 3, FEW, || format!("{} responses", self.responses));
        }
    }
}

#[test]
fn custom_oracle_can_fail_a_run_that_can_be_repeated() {
    let config = Config::default().with_oracle(|_| Box::<FewResponses>::default());
    let failure = failure_of(&config);
    assert_eq!(failure.violation.invariant, "few-responses");
    let again = run_again(&failure.to_test(), &config).expect("it fails again");
    assert_eq!(again.violation.invariant, "few-responses");
    assert!(!failure.to_text(None).contains("xds sim replay"), "{}", failure.to_text(None));
}

#[test]
fn situation_that_is_never_reached_is_a_failure() {
    let scenario = |world: &mut World| {
        if world.choices().below("number", 10) == 7 {
            sometimes("seven");
        }
        if world.choices().below("number", 10) == 11 {
            sometimes("eleven");
        }
    };
    let config = Config::default().with_runs(100).with_situation("seven");
    let report = check(&config, scenario);
    assert!((1..50).contains(&report.situations.hits_of("seven")), "{report:?}");
    let text = panic_message(&config.clone().with_situation("eleven"), scenario);
    assert!(text.contains("[\"eleven\"]"), "{text}");
    let expired = Situation::Expired.as_str();
    assert!(panic_message(&config.with_situation(expired), scenario).contains(expired));
    sometimes("outside of a run it counts nothing");
}

/// An application that does not handle deletions.
#[derive(Default)]
struct Hoarder {
    by_watch: BTreeMap<WatchId, (TypeUrl, String, Bytes)>,
}

impl Application for Hoarder {
    fn notified(&mut self, watch: WatchId, url: &TypeUrl, name: Option<&str>, notice: &Notice) {
        if let (Notice::Changed(Ok(resource)), Some(name)) = (notice, name) {
            let value = (url.clone(), name.into(), resource.bytes.clone());
            self.by_watch.insert(watch, value);
        }
    }

    fn unwatched(&mut self, watch: WatchId) {
        self.by_watch.remove(&watch);
    }

    fn restarted(&mut self) {
        self.by_watch.clear();
    }

    fn agrees_with(&self, truth: &dyn Fn(&TypeUrl, &str) -> Option<Bytes>) -> Result<(), String> {
        let held = self.by_watch.values();
        let mut wrong = held.filter(|(url, name, bytes)| truth(url, name).as_ref() != Some(bytes));
        wrong.next().map_or(Ok(()), |(_, name, _)| Err(format!("{name} is held")))
    }
}

#[test]
fn faulty_custom_watcher_is_detected() {
    let config = Config::default().with_options(Options::plain);
    let config = config.with_application(|_| Box::<Hoarder>::default());
    let violation = failure_of(&config).violation;
    assert_eq!(violation.invariant, "application", "{violation:?}");
    assert!(violation.what.ends_with("is held"), "{violation:?}");
}
