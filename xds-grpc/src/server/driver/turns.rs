//! Order in which a driver handles inputs: those of the application first, and then those of
//! connections in turn.

use xds_core::StreamId;

use super::{
    Driver,
    inbox::{Command, Input},
};

/// Maximum number of inputs of the application per iteration.
const MAX_APPLICATION_INPUTS: usize = 1_000;

/// Maximum number of inputs of connections per iteration.
const MAX_CONNECTION_INPUTS: usize = 128;

/// Maximum bytes of requests per iteration; the last request may exceed it. The core reads a request
/// once before it handles its names. A command of a connection is the last input of its iteration,
/// because it copies up to as many bytes.
pub(crate) const MAX_BYTES: usize = 256 << 10;

/// Maximum number of names per iteration that the core handles for requests and ends of streams; the
/// last input may exceed it.
const MAX_NAMES: u64 = 1_024;

impl Driver {
    /// Sorts the inputs that have arrived into the queues of their connections. Later ones are taken
    /// in the next iteration.
    pub(crate) fn take_inputs(&mut self) {
        for _ in 0..self.receiver.len() {
            let Ok(input) = self.receiver.try_recv() else { return };
            self.queue_input(input);
        }
    }

    pub(crate) fn queue_input(&mut self, input: Input) {
        let connection = match (&input, input.stream()) {
            (Input::Accept { call, .. }, _) => call.responses.id(),
            (Input::Command(Command { caller: Some(caller), .. }), _) => *caller,
            (_, Some(id)) => match self.streams.get(&id) {
                Some(stream) => stream.responses.id(),
                // The stream has ended.
                None => return,
            },
            (_, None) => return self.application.push_back(input),
        };
        self.connections.push(connection, input);
    }

    /// Queues a stream that may have a response to send and space for it.
    pub(crate) fn note_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get(&id) {
            self.writable.push(stream.responses.id(), id);
        }
    }

    /// Handles inputs of the application, and then those of connections in turn, until the share of an
    /// iteration is used up.
    pub(crate) fn handle_inputs(&mut self) {
        for _ in 0..MAX_APPLICATION_INPUTS {
            let Some(input) = self.application.pop_front() else { break };
            self.handle_input(input);
        }
        let (mut bytes, full) = (0, self.server.handled_names() + MAX_NAMES);
        for _ in 0..MAX_CONNECTION_INPUTS {
            if bytes >= MAX_BYTES || self.server.handled_names() >= full {
                break;
            }
            let Some(input) = self.connections.pop() else { break };
            bytes += match &input {
                Input::Request(_, message) => message.len(),
                // The status of clients may have many resources.
                Input::Command(command) if command.is_awaited() => MAX_BYTES,
                _ => 0,
            };
            self.handle_input(input);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::{
        convert::Infallible,
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Poll, Waker},
    };

    use bytes::Bytes;
    use http::HeaderMap;
    use http_body::Body as _;
    use prost::Message as _;
    use tokio::sync::oneshot;
    use tonic::body::Body;
    use tower_service::Service as _;
    use xds_core::{
        proto::{DiscoveryRequest, Node},
        server::{Readiness, ServerConfig, StreamKind, Transaction},
        service::Variant,
        types::CLUSTER,
    };

    use super::*;
    use crate::server::{
        ManagementServer, ServerHandle, ServerOptions,
        access::peer::Peer,
        calls::message_reader::MessageReader,
        driver::{
            body::ResponseBody, inbox::IncomingCall, requests::RequestLimit, transmit::MAX_STREAMS,
        },
        memory::budgets::ConnectionBudgets,
    };
    use crate::{
        csds::{ServerCsdsService, VisibleClients},
        grpc::FETCH_CLIENT_STATUS,
        runtime::{BoxFuture, tests::Still},
    };

    /// Server whose driver runs one part at a time, when [`run`](Self::run) is called.
    struct ManualServer {
        server: ManagementServer<Still>,
        driver: Pin<Box<dyn Future<Output = ()>>>,
    }

    /// Streams of the connection that has many.
    const MANY: usize = 2_000;

    impl ManualServer {
        fn start(readiness: Readiness) -> Self {
            let mut config = ServerConfig::default();
            config.readiness = readiness;
            config.limits.streams_per_node = 2 * MANY;
            config.limits.decision = None;
            let options = ServerOptions::default().with_seed(1);
            let (server, driver) = ManagementServer::driver_on(Still, config, options);
            Self { server, driver: Box::pin(driver) }
        }

        /// Runs the driver until it yields or waits.
        fn run(&mut self) {
            assert!(
                self.driver.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
            );
        }

        /// Runs the driver until a condition is met.
        fn run_until(&mut self, mut condition: impl FnMut() -> bool) {
            let limit = 10 * MANY;
            assert!((0..limit).any(|_| {
                self.run();
                condition()
            }));
        }

        /// Opens streams on a connection. Their transports are ready for a response.
        fn open(&mut self, connection: &ConnectionBudgets, count: usize) -> Vec<ResponseBody> {
            let mut replies: Vec<_> = (0..count).map(|_| self.call(connection)).collect();
            let mut bodies = Vec::new();
            self.run_until(|| {
                while let Some(Ok(body)) = replies.first_mut().map(oneshot::Receiver::try_recv) {
                    bodies.push(body.expect("a stream"));
                    drop(replies.remove(0));
                }
                replies.is_empty()
            });
            assert!(!bodies.iter_mut().any(is_answered));
            bodies
        }

        fn call(
            &self,
            connection: &ConnectionBudgets,
        ) -> oneshot::Receiver<Result<ResponseBody, xds_core::server::Refusal>> {
            let request_limit = RequestLimit::of(&self.server.options);
            let body = Body::empty();
            let call = Box::new(IncomingCall {
                via: StreamKind::Aggregated(Variant::StateOfTheWorld),
                requests: MessageReader::new(body, request_limit.bytes, connection),
                request_limit,
                responses: connection.responses.clone(),
                peer: Peer::default(),
                metadata: HeaderMap::new(),
            });
            let (reply, answer) = oneshot::channel();
            self.server.inbox.send(Input::Accept { call, reply });
            answer
        }

        /// Requests the status of all clients on a connection. `is_visible` runs once per client.
        fn client_status(
            &self,
            connection: &ConnectionBudgets,
            is_visible: impl Fn() -> bool + Copy + Send + Sync + 'static,
        ) -> ClientStatusCall {
            let everything = String::from("\0\0\0\0\0");
            let mut request = http::Request::new(everything);
            *request.uri_mut() = FETCH_CLIENT_STATUS.parse().unwrap();
            request.extensions_mut().insert(connection.clone());
            let authorizer = move |_| {
                let visible = VisibleClients::matching(move |_| is_visible());
                core::future::ready(Ok(visible))
            };
            ServerCsdsService::new(self.server.handle()).with_authorizer(authorizer).call(request)
        }

        /// Requests all clusters on a stream.
        fn request(&self, body: &ResponseBody) {
            self.request_by_name(body, Vec::new());
        }

        fn request_by_name(&self, body: &ResponseBody, names: Vec<String>) {
            let request = DiscoveryRequest {
                node: Some(Node { id: "client".into(), ..Node::default() }),
                type_url: CLUSTER.into(),
                resource_names: names,
                ..DiscoveryRequest::default()
            };
            let message = Bytes::from(request.encode_to_vec());
            self.server.inbox.send(Input::Request(body.stream, message));
        }
    }

    /// Queues a change of a resource.
    fn change(server: &ServerHandle, number: usize) {
        let mut change = Transaction::new();
        change.set(CLUSTER, "cluster", number.to_string());
        let mut apply = core::pin::pin!(server.apply(change));
        assert!(apply.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    type ClientStatusCall = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    /// Continues calls until they wait for the driver. Returns whether all are complete.
    fn poll_all(calls: &mut Vec<ClientStatusCall>) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        calls.retain_mut(|call| match call.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(response)) => {
                assert!(!response.headers().contains_key("grpc-status"), "{response:?}");
                false
            }
            Poll::Pending => true,
        });
        calls.is_empty()
    }

    /// Whether the transport of a stream has been given a response.
    fn is_answered(body: &mut ResponseBody) -> bool {
        let next = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        matches!(next, Poll::Ready(Some(Ok(frame))) if frame.is_data())
    }

    fn count_answered(bodies: &mut [ResponseBody]) -> usize {
        bodies.iter_mut().map(|body| usize::from(is_answered(body))).sum()
    }

    #[test]
    fn request_does_not_wait_for_the_requests_of_another_connection() {
        let mut server = ManualServer::start(Readiness::Ready);
        let [busy, modest] = [(); 2].map(|()| server.server.budgets.connection());
        let mut many = server.open(&busy, MANY);
        let mut one = server.open(&modest, 1);
        many.iter().chain(&one).for_each(|body| server.request(body));
        server.run_until(|| is_answered(&mut one[0]));
        let answered = count_answered(&mut many);
        assert!(answered < 200, "{answered} of {MANY} were answered first");
        server.run_until(|| count_answered(&mut many) == 0);
    }

    #[test]
    fn call_does_not_wait_for_the_calls_of_another_connection() {
        let mut server = ManualServer::start(Readiness::Ready);
        let [busy, modest] = [(); 2].map(|()| server.server.budgets.connection());
        let mut many: Vec<_> = (0..MANY).map(|_| server.call(&busy)).collect();
        drop(server.open(&modest, 1));
        let accepted = many.iter_mut().filter_map(|reply| reply.try_recv().ok()).count();
        assert!(accepted < 200, "{accepted} of {MANY} were accepted first");
    }

    #[test]
    fn response_does_not_wait_for_the_responses_of_another_connection() {
        let mut server = ManualServer::start(Readiness::HoldRequests);
        let [busy, modest] = [(); 2].map(|()| server.server.budgets.connection());
        let mut many = server.open(&busy, MANY);
        let mut one = server.open(&modest, 1);
        many.iter().chain(&one).for_each(|body| server.request(body));
        (0..100).for_each(|_| server.run());
        assert_eq!(count_answered(&mut many), 0);
        let (reply, _) = oneshot::channel();
        server.server.inbox.send(Input::Ready(reply));
        server.run_until(|| is_answered(&mut one[0]));
        let answered = count_answered(&mut many);
        assert!(answered < MAX_STREAMS, "{answered} of {MANY} were answered first");
    }

    #[test]
    fn application_does_not_wait_for_requests() {
        let mut server = ManualServer::start(Readiness::Ready);
        let busy = server.server.budgets.connection();
        let mut many = server.open(&busy, MANY);
        many.iter().for_each(|body| server.request(body));
        let (reply, mut answer) = oneshot::channel();
        server.server.inbox.send(Input::Ready(reply));
        server.run_until(|| answer.try_recv().is_ok());
        let answered = count_answered(&mut many);
        assert!(answered < 200, "{answered} of {MANY} were answered first");
    }

    #[test]
    fn application_does_not_wait_for_requests_of_client_status() {
        let mut server = ManualServer::start(Readiness::Ready);
        let busy = server.server.budgets.connection();
        let mut many: Vec<_> = (0..MANY).map(|_| server.client_status(&busy, || true)).collect();
        assert!(!poll_all(&mut many));
        let (reply, mut answer) = oneshot::channel();
        server.server.inbox.send(Input::Ready(reply));
        server.run();
        assert!(answer.try_recv().is_ok());
    }

    #[test]
    fn one_request_of_client_status_is_handled_per_iteration() {
        static REPORTED: AtomicUsize = AtomicUsize::new(0);
        let report = || REPORTED.fetch_add(1, Ordering::Relaxed) < usize::MAX;
        let mut server = ManualServer::start(Readiness::Ready);
        let [busy, modest] = [(); 2].map(|()| server.server.budgets.connection());
        let mut one = server.open(&modest, 1);
        let mut many: Vec<_> = (0..100).map(|_| server.client_status(&busy, report)).collect();
        while !poll_all(&mut many) {
            let before = REPORTED.load(Ordering::Relaxed);
            server.run();
            assert!(REPORTED.load(Ordering::Relaxed) <= before + 1);
        }
        assert_eq!(REPORTED.load(Ordering::Relaxed), 100);

        many.extend((0..100).map(|_| server.client_status(&busy, report)));
        poll_all(&mut many);
        server.request(&one[0]);
        (0..3).for_each(|_| server.run());
        assert!(is_answered(&mut one[0]));
    }

    #[test]
    fn requests_of_ended_calls_for_client_status_take_no_turns() {
        let mut server = ManualServer::start(Readiness::Ready);
        let connection = server.server.budgets.connection();
        let _one = server.open(&connection, 1);
        let mut ended: Vec<_> =
            (0..100).map(|_| server.client_status(&connection, || true)).collect();
        poll_all(&mut ended);
        drop(ended);
        let mut last = vec![server.client_status(&connection, || true)];
        let mut iterations = 0;
        while !poll_all(&mut last) {
            server.run();
            iterations += 1;
        }
        assert!(iterations < 20, "{iterations} iterations");
    }

    #[test]
    fn client_status_reports_many_clients_per_iteration_while_resources_change() {
        let mut server = ManualServer::start(Readiness::Ready);
        let [clients, operator] = [(); 2].map(|()| server.server.budgets.connection());
        let many = server.open(&clients, MANY);
        many.iter().for_each(|body| server.request(body));
        (0..100).for_each(|_| server.run());
        let mut report = vec![server.client_status(&operator, || true)];
        let handle = server.server.handle();
        let mut iterations = 0;
        while !poll_all(&mut report) {
            change(&handle, iterations);
            server.run();
            iterations += 1;
        }
        assert!(iterations < MANY / 20, "{iterations} iterations");
    }

    #[test]
    fn client_status_reports_clients_up_to_a_number_of_bytes_per_iteration() {
        static REPORTED: AtomicUsize = AtomicUsize::new(0);
        let report = || REPORTED.fetch_add(1, Ordering::Relaxed) < usize::MAX;
        let mut server = ManualServer::start(Readiness::Ready);
        let [clients, operator, other] = [(); 3].map(|()| server.server.budgets.connection());
        let hundred = server.open(&clients, 100);
        let mut one = server.open(&other, 1);
        for body in &hundred {
            let names = (0..64).map(|i| format!("{i}{}", "x".repeat(500)));
            server.request_by_name(body, names.collect());
        }
        (0..100).for_each(|_| server.run());
        let mut status = vec![server.client_status(&operator, report)];
        let mut reported = Vec::new();
        while !poll_all(&mut status) {
            if reported.len() == 5 {
                server.request(&one[0]);
            }
            let before = REPORTED.load(Ordering::Relaxed);
            server.run();
            reported.push(REPORTED.load(Ordering::Relaxed) - before);
            if reported.len() == 8 {
                assert!(is_answered(&mut one[0]));
            }
        }
        assert!(reported[5..8].iter().all(|count| *count > 0), "{reported:?}");
        assert_eq!(reported.iter().sum::<usize>(), 101);
        let most = reported.into_iter().max().unwrap();
        assert!((4..=MAX_BYTES / (64 * 500)).contains(&most), "{most} clients at once");
    }
}
