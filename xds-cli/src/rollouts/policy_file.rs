//! Parsing of a file with the policy of rollouts.

use core::time::Duration;
use std::path::Path;

use serde_json::{Map, Value as Json};
use xds_core::rollout::{
    Cohort, HaltConditions, OnHalt, OnNewer, PolicyError, RolloutPolicy, RolloutStep, Share,
};

use super::{MetricCommand, RolloutSettings};
use crate::{
    args::parse_duration,
    diagnostic::{Diagnostic, Level, Rule},
    settings_file::{self, SettingsReader},
};

const TOP_FIELDS: [&str; 7] =
    ["steps", "halt", "on_halt", "on_newer", "metrics", "metric_timeout", "salt"];
const STEP_FIELDS: [&str; 6] =
    ["percent", "when", "acknowledged", "min_clients", "timeout", "soak"];
const HALT_FIELDS: [&str; 4] = ["max_rejections", "max_warnings", "max_lost", "lost_after"];
const METRIC_FIELDS: [&str; 3] = ["name", "command", "every"];

/// Reads and parses a file. The result contains all errors.
pub(crate) fn read(path: &Path) -> Result<RolloutSettings, Vec<Diagnostic>> {
    let bytes = settings_file::read(path).map_err(|why| {
        let text = format!("cannot read the policy: {why}");
        vec![Diagnostic::new(Rule::InvalidPolicy, Level::Error, path, text)]
    })?;
    parse(path, &bytes)
}

fn parse(path: &Path, text: &[u8]) -> Result<RolloutSettings, Vec<Diagnostic>> {
    settings_file::parse(path, text, Rule::InvalidPolicy, |reader, json| {
        let settings = reader.rollout_settings(json);
        if !reader.has_errors()
            && let Err(why) = settings.policy.validate()
        {
            reader.error(&field_of(&why), &why.to_string());
        }
        settings
    })
}

/// Returns the field with the problem.
fn field_of(why: &PolicyError) -> String {
    match why {
        PolicyError::EmptyShare { step }
        | PolicyError::EmptyCondition { step, .. }
        | PolicyError::AddsNothing { step, .. }
        | PolicyError::NoTime { step }
        | PolicyError::NeverEnds { step, .. } => format!("steps[{}]", step - 1),
        PolicyError::MetricTimeout { .. } => "metric_timeout".to_owned(),
        PolicyError::MetricName { .. } => "metrics".to_owned(),
        _ => "steps".to_owned(),
    }
}

impl SettingsReader<'_> {
    fn rollout_settings(&mut self, json: &Json) -> RolloutSettings {
        let mut settings =
            RolloutSettings { policy: RolloutPolicy::default(), metrics: Vec::new() };
        let Some(top) = self.object(json, "") else { return settings };
        self.known(top, "", &TOP_FIELDS);
        let policy = &mut settings.policy;
        match top.get("steps") {
            Some(Json::Array(steps)) if !steps.is_empty() => {
                let steps = steps.iter().enumerate();
                let steps =
                    steps.filter_map(|(at, it)| self.rollout_step(it, &format!("steps[{at}]")));
                policy.steps = steps.collect();
            }
            _ => self.error("steps", "expected a list of steps"),
        }
        if let Some(halt) = top.get("halt") {
            policy.halt = self.halt(halt);
        }
        let reactions = [("roll-back", OnHalt::RollBack), ("hold", OnHalt::Hold)];
        self.choice(top, "on_halt", reactions, &mut policy.on_halt);
        let orders = [("supersede", OnNewer::Supersede), ("queue", OnNewer::Queue)];
        self.choice(top, "on_newer", orders, &mut policy.on_newer);
        match top.get("salt") {
            Some(Json::String(salt)) => policy.salt.clone_from(salt),
            Some(_) => self.error("salt", "expected a text; put numbers in quotes"),
            None => {}
        }
        match top.get("metrics") {
            Some(Json::Array(metrics)) => {
                let metrics = metrics.iter().enumerate();
                let metrics =
                    metrics.filter_map(|(at, it)| self.metric(it, &format!("metrics[{at}]")));
                settings.metrics = metrics.collect();
            }
            Some(_) => self.error("metrics", "expected a list of metrics"),
            None => {}
        }
        for metric in &settings.metrics {
            *policy = core::mem::take(policy).with_metric(&metric.name);
        }
        self.time(top, "", "metric_timeout", &mut policy.metric_timeout);
        settings
    }

    fn rollout_step(&mut self, json: &Json, field: &str) -> Option<RolloutStep> {
        let object = self.object(json, field)?;
        self.known(object, field, &STEP_FIELDS);
        let mut cohort = Cohort::of(Share::ALL);
        if let Some(when) = object.get("when") {
            cohort.clients = self.clients(when, &format!("{field}.when"));
        }
        self.share(object, field, "percent", &mut cohort.share);
        if !object.contains_key("when") && !object.contains_key("percent") {
            self.error(field, "`percent` or `when` is missing: the clients of the step");
        }
        let mut step = RolloutStep::new(cohort);
        self.share(object, field, "acknowledged", &mut step.acknowledged);
        self.number(object, field, "min_clients", &mut step.min_clients);
        self.time(object, field, "timeout", &mut step.timeout);
        self.time(object, field, "soak", &mut step.soak);
        Some(step)
    }

    fn halt(&mut self, json: &Json) -> HaltConditions {
        let mut halt = HaltConditions::default();
        let Some(object) = self.object(json, "halt") else { return halt };
        self.known(object, "halt", &HALT_FIELDS);
        self.number(object, "halt", "max_rejections", &mut halt.max_rejections);
        if object.contains_key("max_warnings") {
            let mut most = 0;
            self.number(object, "halt", "max_warnings", &mut most);
            halt.max_warnings = Some(most);
        }
        if object.contains_key("max_lost") {
            let mut most = Share::ALL;
            self.share(object, "halt", "max_lost", &mut most);
            halt.max_lost = Some(most);
        }
        self.time(object, "halt", "lost_after", &mut halt.lost_after);
        halt
    }

    fn metric(&mut self, json: &Json, field: &str) -> Option<MetricCommand> {
        let object = self.object(json, field)?;
        self.known(object, field, &METRIC_FIELDS);
        let mut every = Duration::from_secs(10);
        self.time(object, field, "every", &mut every);
        if every.is_zero() {
            self.error(&format!("{field}.every"), "expected more than 0 seconds");
        }
        let name = object.get("name").and_then(Json::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            self.error(field, "`name` is missing: the name of the metric");
        }
        let words = match object.get("command") {
            Some(Json::Array(words)) if !words.is_empty() => words.as_slice(),
            _ => &[],
        };
        let command: Option<Vec<_>> =
            words.iter().map(|it| Some(it.as_str()?.to_owned())).collect();
        let Some(command) = command.filter(|it| !it.is_empty()) else {
            let why = "expected a list with the program and its arguments, each a text";
            self.error(&format!("{field}.command"), why);
            return None;
        };
        Some(MetricCommand { name, command, every })
    }

    fn choice<T: Copy>(
        &mut self,
        object: &Map<String, Json>,
        name: &str,
        choices: [(&str, T); 2],
        value: &mut T,
    ) {
        let Some(json) = object.get(name) else { return };
        match choices.iter().find(|(word, _)| json.as_str() == Some(word)) {
            Some((_, chosen)) => *value = *chosen,
            None => {
                let [(a, _), (b, _)] = choices;
                self.error(name, &format!("expected `{a}` or `{b}`"));
            }
        }
    }

    fn share(&mut self, object: &Map<String, Json>, of: &str, name: &str, value: &mut Share) {
        let Some(json) = object.get(name) else { return };
        let text = match json {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        match text.parse() {
            Ok(share) => *value = share,
            Err(why) => self.error(&format!("{of}.{name}"), &why.to_string()),
        }
    }

    fn number(&mut self, object: &Map<String, Json>, of: &str, name: &str, value: &mut u32) {
        let Some(json) = object.get(name) else { return };
        match json.as_u64().and_then(|it| it.try_into().ok()) {
            Some(number) => *value = number,
            None => self.error(&format!("{of}.{name}"), "expected a number of 0 or more"),
        }
    }

    fn time(&mut self, object: &Map<String, Json>, of: &str, name: &str, value: &mut Duration) {
        let Some(json) = object.get(name) else { return };
        match json.as_str().map(parse_duration) {
            Some(Ok(time)) => *value = time,
            _ => {
                let field = if of.is_empty() { name.to_owned() } else { format!("{of}.{name}") };
                self.error(&field, "expected a time with a unit, as in 500ms, 20s, 5m or 1h");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let found = parse(Path::new("p.yaml"), text.as_bytes()).unwrap_err();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whole_policy_is_read() {
        let text = "
steps:
- when: { id: canary-* }
  min_clients: 2
  timeout: 1m
  soak: 90s
- percent: 12.5
  acknowledged: 90%
halt: { max_rejections: 1, max_warnings: 10, max_lost: 20%, lost_after: 5s }
on_halt: hold
on_newer: queue
salt: blue
metrics:
- name: errors
  command: [./errors, --below, '2%']
  every: 5s
metric_timeout: 30s
";
        let settings = parse(Path::new("p.yaml"), text.as_bytes()).unwrap();
        let policy = &settings.policy;
        let [first, second] = &policy.steps[..] else { panic!("{policy:?}") };
        assert_eq!((first.min_clients, first.soak), (2, Duration::from_secs(90)));
        assert_eq!(first.timeout, Duration::from_secs(60));
        assert_eq!(second.cohort.share.to_string(), "12.5%");
        assert_eq!(second.acknowledged, Share::percent(90));
        assert_eq!(policy.halt.max_warnings, Some(10));
        assert_eq!(policy.halt.max_lost, Some(Share::percent(20)));
        assert_eq!((policy.on_halt, policy.on_newer), (OnHalt::Hold, OnNewer::Queue));
        assert_eq!((&*policy.salt, &policy.metrics[..]), ("blue", &["errors".to_owned()][..]));
        assert_eq!(policy.metric_timeout, Duration::from_secs(30));
        assert_eq!(settings.metrics[0].command, ["./errors", "--below", "2%"]);
        assert_eq!(settings.node_detail(), xds_core::rollout::NodeDetail::Full);
    }

    #[test]
    fn errors_name_line_and_field() {
        let text =
            "steps:\n- soak: 10\n- percent: 120\n  sok: 1s\nhalt: { max_lost: x }\non_halt: stop\n";
        assert_eq!(
            errors(text),
            [
                "p.yaml:2:3: steps[0]: `percent` or `when` is missing: the clients of the step",
                "p.yaml:2:9: steps[0].soak: expected a time with a unit, as in 500ms, 20s, 5m or 1h",
                "p.yaml:4:8: steps[1].sok: unknown field, did you mean `soak`?",
                "p.yaml:3:12: steps[1].percent: `120` is not a percentage: use a number from 0 to \
                 100 with at most two decimals",
                "p.yaml:5:19: halt.max_lost: `x` is not a percentage: use a number from 0 to 100 \
                 with at most two decimals",
                "p.yaml:6:10: on_halt: expected `roll-back` or `hold`",
            ]
        );
        assert_eq!(
            errors("steps: [{ percent: 5 }, { percent: 5 }]"),
            ["p.yaml:1:25: steps[1]: step 2 adds no client to those of step 1: remove it"]
        );
        assert_eq!(errors("salt: a"), ["p.yaml:1:1: steps: expected a list of steps"]);
    }
}
