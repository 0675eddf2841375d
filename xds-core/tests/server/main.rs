//! The management server, through its public API.
//!
//! One binary, so that the machinery that the tests share is compiled once.

mod support;

mod absence;
mod ack_gated;
mod aliases;
mod aliases_elsewhere;
mod aliases_model;
mod asides;
mod client_limits;
mod clients;
mod clock;
mod contents;
mod convergence;
mod debounce;
mod delta;
mod delta_model;
mod delta_rows;
mod errors;

mod farewells;
mod fetches;
mod first_answers;
mod gated_removals;
mod globs;
mod globs_model;
mod half_closed;
mod heartbeats;
mod heartbeats_beside_content;
mod heartbeats_end;
mod hostile;
mod idle_views;
mod isolation;
mod labels;
mod layers;
mod lifecycle;
mod locators;
mod long_lists;
mod make_before_break;
mod model;
mod moves;
mod nacks;
mod nonces;
mod older;
mod order;
mod overdue;
mod policies;
mod presets;
mod readiness;
mod rejected_and_gone;
mod rejected_changes;
mod rejection_report;
mod responses;
mod sent;
mod stats;
mod store;
mod streams;
mod subscriptions;
mod versions;
mod views;
mod wants;
mod window;
mod work;
