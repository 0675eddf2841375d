//! Explanation as text.

use super::report::{Action, ClusterReport, ClusterShare, Explanation, RouteState};
use crate::{
    style::Style,
    text::{count, escaped},
};

/// Number of lines for routes that do not match, after which the others are only counted.
const MOST_ROUTES: usize = 40;
/// Number of endpoints of a locality, after which the others are only counted.
const MOST_ENDPOINTS: usize = 10;
/// Width of the output, in characters.
const WIDTH: usize = 80;

/// Formats an explanation.
pub(super) fn format(report: &Explanation, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let request = &report.request;
    if !request.method.is_empty() {
        let url =
            format!("{} {}://{}{}", request.method, request.scheme, request.host, request.path);
        field(&mut lines, style, "request", &url);
    }
    if let Some(listener) = &report.listener {
        let address = listener.address.as_ref().map(|it| format!(" on {it}")).unwrap_or_default();
        let chain = listener.filter_chain.as_ref().map(|it| format!(", filter chain {it}"));
        let text = format!("{}{address}{}", listener.name, chain.unwrap_or_default());
        field(&mut lines, style, "listener", &text);
    }
    if let Some(routes) = &report.route_config {
        field(&mut lines, style, "routes", &format!("{routes}, by the rules of {}", report.rules));
    }
    if let Some(host) = &report.virtual_host {
        let text = format!("{} (index {}), domain {}", host.name, host.index, host.domain);
        field(&mut lines, style, "host", &text);
    }
    let others = report.routes.iter().filter(|it| it.state != RouteState::Used);
    let skip_from = others.clone().nth(MOST_ROUTES).map(|it| it.index);
    let mut omitted = 0_u64;
    for route in &report.routes {
        let is_used = route.state == RouteState::Used;
        if !is_used && skip_from.is_some_and(|from| route.index >= from) {
            omitted += 1;
            continue;
        }
        let name = route.name.as_ref().map(|it| format!(" {it}")).unwrap_or_default();
        let text = format!("{}{name}: {}", route.index, route.matches);
        let share = match route.share {
            share if is_used && share < 1.0 => format!(" <- {} of requests", percent(share)),
            _ if is_used => " <- used".to_owned(),
            _ => String::new(),
        };
        let mark = if is_used {
            style.good("route").to_string()
        } else {
            style.quiet("route").to_string()
        };
        wrapped(&mut lines, &format!("{mark}     "), 10, &format!("{text}{share}"));
        if let Some(reason) = &route.reason {
            wrapped(&mut lines, "            ", 12, reason);
        }
    }
    if omitted > 0 {
        lines.push(format!("          {} more do not match", count(omitted, "route")));
    }
    for outcome in &report.outcomes {
        let share = match outcome.share {
            share if share < 1.0 => format!("{} of requests: ", percent(share)),
            _ => String::new(),
        };
        match &outcome.action {
            Action::Forward { clusters, path, host } => {
                clusters.iter().for_each(|it| cluster(&mut lines, style, &share, it));
                if *path != request.path {
                    field(&mut lines, style, "path", &format!("{path} (rewritten)"));
                }
                if *host != request.host {
                    field(&mut lines, style, "rewrite", &format!("the host becomes {host}"));
                }
            }
            Action::Redirect { status, location } => {
                field(&mut lines, style, "redirect", &format!("{share}{status} to {location}"));
            }
            Action::DirectResponse { status } => {
                field(&mut lines, style, "answer", &format!("{share}direct response {status}"));
            }
            Action::Fail { reason } => {
                field(&mut lines, style, "fails", &format!("{share}{reason}"));
            }
        }
        for (name, value) in &outcome.settings {
            wrapped(&mut lines, "          ", 12, &format!("{}: {value}", name.replace('_', " ")));
        }
    }
    report.notes.iter().for_each(|note| field(&mut lines, style, "note", note));
    for problem in &report.problems {
        wrapped(&mut lines, &format!("{}   ", style.bad("problem")), 10, problem);
    }
    lines
}

fn cluster(lines: &mut Vec<String>, style: Style, of_requests: &str, it: &ClusterShare) {
    let part = match it.weight {
        Some(weight) => format!(" ({}, weight {weight})", percent(it.share)),
        None => String::new(),
    };
    let Some(cluster) = &it.cluster else {
        let text = format!("{of_requests}{}{part}: does not exist", it.name);
        return field(lines, style, "cluster", &text);
    };
    let ClusterReport { kind, lb_policy, endpoints_name, localities, aggregates } = cluster;
    let eds = endpoints_name.as_ref().filter(|name| **name != it.name);
    let eds = eds.map(|name| format!(", endpoints {name}")).unwrap_or_default();
    let text = format!("{of_requests}{}{part}: {kind}, {lb_policy}{eds}", it.name);
    field(lines, style, "cluster", &text);
    if !aggregates.is_empty() {
        wrapped(lines, "          ", 12, &format!("clusters in order: {}", aggregates.join(", ")));
    }
    for locality in localities {
        let name = if locality.locality.is_empty() { "any" } else { locality.locality.as_str() };
        let weight = locality.weight.map(|it| format!(", weight {it}")).unwrap_or_default();
        let text = format!("locality {name}, priority {}{weight}", locality.priority);
        wrapped(lines, "          ", 12, &text);
        for endpoint in locality.endpoints.iter().take(MOST_ENDPOINTS) {
            let weight = endpoint.weight.map(|it| format!(", weight {it}")).unwrap_or_default();
            let text = format!("{} {}{weight}", endpoint.address, endpoint.health);
            wrapped(lines, "            ", 14, &text);
        }
        let more = locality.endpoints.len().saturating_sub(MOST_ENDPOINTS);
        if more > 0 {
            lines.push(format!("            and {}", count(more as u64, "more endpoint")));
        }
        if locality.endpoints.is_empty() {
            lines.push("            no endpoints".to_owned());
        }
    }
    if localities.is_empty() && aggregates.is_empty() {
        lines.push("          no endpoints are known".to_owned());
    }
}

fn field(lines: &mut Vec<String>, style: Style, name: &str, text: &str) {
    let space = " ".repeat(10_usize.saturating_sub(name.len()));
    wrapped(lines, &format!("{}{space}", style.strong(name)), 10, text);
}

/// Adds a text after `start`, folded at spaces. Further lines are indented.
fn wrapped(lines: &mut Vec<String>, start: &str, indent: usize, text: &str) {
    let mut line = String::new();
    let mut start = start.to_owned();
    for word in escaped(text).split(' ') {
        let is_over = line.chars().count() + 1 + word.chars().count() > WIDTH - indent;
        if is_over && !line.is_empty() {
            lines.push(format!("{start}{line}"));
            start = " ".repeat(indent);
            line.clear();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(format!("{start}{line}"));
}

/// Formats a share with up to four decimals, such as `12.5 %`.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_without_trailing_zeros() {
        for (share, text) in
            [(0.25, "25 %"), (1.0, "100 %"), (0.375, "37.5 %"), (0.000_001, "0.0001 %")]
        {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn long_lines_are_folded_at_spaces() {
        let mut lines = Vec::new();
        wrapped(&mut lines, "start     ", 10, &"word ".repeat(40));
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines[1].starts_with("          word"));
    }
}
