//! Steps of the demo. Each changes files, waits for the result at server and client, and shows it.

use core::time::Duration;

use xds_core::types;

use super::{
    narrator::Narrator,
    setup::{DemoSetup, DemoState},
    try_out, view, wire,
};
use crate::{
    facts,
    failure::{DemoFailure, Failure},
    server_table::{Row, RowState, Subscribed, table_within},
};

/// Files at the start.
pub(super) const FILES: &[(&str, &str)] = &[
    ("clusters.yaml", include_str!("../../../demo/clusters.yaml")),
    ("endpoints.yaml", include_str!("../../../demo/endpoints.yaml")),
    ("listener.yaml", include_str!("../../../demo/listener.yaml")),
    ("routes.yaml", include_str!("../../../demo/routes.yaml")),
];

/// Includes a file that replaces another one during the story.
macro_rules! edit {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/demo/edits/", $file))
    };
}
#[cfg(feature = "etcd")]
pub(super) use edit;

/// Time during which the server must send no response.
const SILENCE: Duration = Duration::from_millis(700);

pub(crate) struct DemoSteps {
    narrator: Narrator,
    setup: DemoSetup,
    /// State of server and client after the last step.
    state: DemoState,
}

impl DemoSteps {
    pub(crate) async fn run(narrator: Narrator) -> Result<(), Failure> {
        let mut steps = Self::begin(narrator).await?;
        steps.scale_up().await?;
        steps.remove_service().await?;
        steps.break_cluster().await?;
        steps.repair_cluster().await?;
        steps.make_before_break().await?;
        steps.end().await
    }

    async fn begin(mut narrator: Narrator) -> Result<Self, Failure> {
        let mut setup = DemoSetup::set(FILES).await?;
        let address = setup.address;
        narrator.paragraph(&format!(
            "Proxies such as Envoy, and gRPC programs, receive their configuration at run\n\
             time: a management server sends resources over a long-lived gRPC stream. The\n\
             client answers each response with an ACK (accepted) or a NACK (rejected, with a\n\
             reason). This protocol is called xDS. The demo runs a server and a client in\n\
             one process, on {address}."
        ))?;
        narrator
            .step(
                "A client starts. It knows one name, the listener `shop`. Each resource\n\
                 refers to the next ones to request: the routes, then the clusters (how to\n\
                 reach a service), then their endpoints (its addresses).",
            )
            .await?;
        setup.follow("shop");
        let state = setup
            .settle("the whole configuration arrives", |state| {
                state.is_complete(4) && all_acked(state)
            })
            .await?;
        let steps = Self { narrator, setup, state };
        steps.narrator.show(
            "The client's resources:",
            &view::tree(&steps.state.resources, steps.narrator.style),
        )?;
        steps.show_server(
            "The server's view of the client (lds: listeners, rds: routes, cds: clusters,\n\
             eds: endpoints):",
        )?;
        Ok(steps)
    }

    async fn scale_up(&mut self) -> Result<(), Failure> {
        self.narrator.step("The cart service is scaled up to three endpoints.").await?;
        self.setup.edit(&[("endpoints.yaml", edit!("endpoints-cart-grown.yaml"))]).await?;
        self.settle("The client:", "the new endpoint arrives", |state| {
            let cart = state.json(types::CLUSTER_LOAD_ASSIGNMENT, "cart");
            cart.is_some_and(|it| facts::endpoints(it).len() == 3) && all_acked(state)
        })
        .await?;
        self.show_server("The server sent only endpoints, because nothing else had changed.")
    }

    async fn remove_service(&mut self) -> Result<(), Failure> {
        self.narrator
            .step("The reviews service is removed: its route, cluster and endpoints.")
            .await?;
        self.setup
            .edit(&[
                ("routes.yaml", edit!("routes-without-reviews.yaml")),
                ("clusters.yaml", edit!("clusters-without-reviews.yaml")),
                ("endpoints.yaml", edit!("endpoints-without-reviews.yaml")),
            ])
            .await?;
        self.settle("The client:", "the reviews service is removed", |state| {
            let is_narrow = |row: &Row| match row.type_name.as_str() {
                "cds" | "eds" => row.subscribed == Subscribed::Names(2),
                _ => true,
            };
            state.json(types::CLUSTER, "reviews").is_none()
                && state.is_complete(4)
                && state.rows.iter().all(is_narrow)
                && all_acked(state)
        })
        .await?;
        self.show_server("The client now subscribes to two clusters and their endpoints.")
    }

    async fn break_cluster(&mut self) -> Result<(), Failure> {
        self.narrator
            .step(
                "An update with a mistake. `catalog` gets another load balancing policy,\n\
                 which is valid. `cart` gets a connect timeout of 0 s, which is invalid.",
            )
            .await?;
        let responses_before = self.state.responses();
        self.setup.edit(&[("clusters.yaml", edit!("clusters-cart-broken.yaml"))]).await?;
        self.settle(
            "The client uses the valid cluster, rejects the invalid one, and keeps its\n\
             previous version:",
            "the invalid cluster is rejected and the valid one is used",
            |state| {
                state.problem(types::CLUSTER, "cart").is_some()
                    && lb_policy(state, "catalog") == Some("LEAST_REQUEST")
                    && state.row("cds").is_some_and(|row| row.state == RowState::Nacked)
                    && state.rows.iter().all(|row| row.state != RowState::Sent)
            },
        )
        .await?;
        self.show_server("The server received the reason, and knows which version is in use.")?;
        self.check_silence(responses_before + 1).await
    }

    /// Checks that a rejected response is not sent again.
    async fn check_silence(&mut self, expected: u64) -> Result<(), Failure> {
        let responses = self.setup.responses_after(SILENCE).await?;
        if responses != expected {
            return Err(DemoFailure::SentTooMuch { expected, responses }.into());
        }
        self.narrator.show(
            &format!(
                "The same response would be rejected again, so the server waits for a change.\n\
                 It has sent {expected} responses, including the rejected one, and none in\n\
                 the {} ms since.",
                SILENCE.as_millis()
            ),
            "",
        )
    }

    async fn repair_cluster(&mut self) -> Result<(), Failure> {
        self.narrator.step("The mistake is fixed.").await?;
        self.setup.edit(&[("clusters.yaml", edit!("clusters-repaired.yaml"))]).await?;
        self.settle("The client:", "the repaired cluster is accepted", |state| {
            let cart = state.json(types::CLUSTER, "cart").and_then(facts::connect_timeout);
            cart == Some("0.750s")
                && state.problem(types::CLUSTER, "cart").is_none()
                && all_acked(state)
        })
        .await?;
        self.show_server("The server:")
    }

    async fn make_before_break(&mut self) -> Result<(), Failure> {
        self.narrator
            .step(
                "The reviews service moves to another cluster. One change replaces the\n\
                 cluster, its endpoints and the route. The server uses --ordering\n\
                 make-before-break, and the client requests all clusters, as Envoy does.",
            )
            .await?;
        let received = wire::move_reviews(FILES).await?;
        self.narrator.show(
            "The client received these responses, in this order. The new cluster and its\n\
             endpoints are in use before the route refers to them, and the old cluster is\n\
             removed last:",
            &wire::listing(&received, self.narrator.style),
        )
    }

    async fn end(self) -> Result<(), Failure> {
        self.setup.end().await;
        self.narrator.paragraph(&format!(
            "This is the end of the demo. To try it with files, use two terminals:\n{}",
            try_out::commands()
        ))
    }

    /// Waits for the expected result, and shows the changes at the client.
    async fn settle(
        &mut self,
        title: &str,
        what: &'static str,
        is_expected: impl Fn(&DemoState) -> bool,
    ) -> Result<(), Failure> {
        let state = self.setup.settle(what, is_expected).await?;
        let style = self.narrator.style;
        let changes = view::changes(&self.state.resources, &state.resources, style);
        self.state = state;
        self.narrator.show(title, &changes)
    }

    fn show_server(&self, title: &str) -> Result<(), Failure> {
        self.narrator.show(title, &table_within(80, &self.state.rows, self.narrator.style))
    }
}

fn all_acked(state: &DemoState) -> bool {
    state.rows.iter().all(|row| row.state == RowState::Acked && row.sent == row.acked)
}

fn lb_policy<'s>(state: &'s DemoState, cluster: &str) -> Option<&'s str> {
    state.json(types::CLUSTER, cluster)?.get("lb_policy")?.as_str()
}
