//! Queue that serves connections in turn.

use std::collections::{BTreeMap, VecDeque};

/// First-in, first-out queue per connection. The connections with items take turns, one item each, so
/// the wait of an item depends on the number of connections and not on how much others have queued.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    items: BTreeMap<u64, VecDeque<T>>,
    /// Ids of the connections with items, the next one first.
    turns: VecDeque<u64>,
}

impl<T> FairQueue<T> {
    pub(super) fn push(&mut self, connection: u64, item: T) {
        let items = self.items.entry(connection).or_default();
        if items.is_empty() {
            self.turns.push_back(connection);
        }
        items.push_back(item);
    }

    /// Removes the first item of the connection whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let connection = self.turns.pop_front()?;
        let items = self.items.get_mut(&connection)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.items.remove(&connection);
        } else {
            self.turns.push_back(connection);
        }
        item
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), turns: VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use core::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use bytes::Bytes;
    use http::HeaderMap;
    use http_body::Body as _;
    use prost::Message as _;
    use tokio::sync::oneshot;
    use xds_core::{
        proto::{DiscoveryRequest, Node},
        server::{Readiness, ServerConfig, StreamKind},
        service::Variant,
        types::CLUSTER,
    };

    use super::{
        super::{
            ManagementServer, ServerOptions,
            body::ResponseBody,
            budgets::ConnectionBudgets,
            inbox::{IncomingCall, Input},
            message_reader::MessageReader,
            peer::Peer,
            requests::RequestLimit,
        },
        *,
    };
    use crate::runtime::tests::Still;

    fn queue(items: &[(u64, char)]) -> FairQueue<char> {
        let mut queue = FairQueue::default();
        items.iter().for_each(|(connection, item)| queue.push(*connection, *item));
        queue
    }

    fn rest(mut queue: FairQueue<char>) -> String {
        let rest = core::iter::from_fn(|| queue.pop()).collect();
        assert!(queue.is_empty() && queue.items.is_empty(), "no connection is kept without items");
        rest
    }

    #[test]
    fn items_of_one_connection_keep_their_order() {
        assert_eq!(rest(queue(&[(7, 'a'), (7, 'b'), (7, 'c')])), "abc");
        assert_eq!(rest(queue(&[])), "");
    }

    #[test]
    fn connections_take_turns() {
        let items = [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'x'), (3, 'y'), (2, 'z')];
        assert_eq!(rest(queue(&items)), "axybzc");
    }

    #[test]
    fn item_waits_for_one_item_of_each_other_connection() {
        let mut queue = FairQueue::default();
        for number in 0..10_000 {
            queue.push(number % 10, 'a');
        }
        queue.push(10, 'x');
        let served = core::iter::from_fn(|| queue.pop()).position(|item| item == 'x');
        assert_eq!(served, Some(10));
    }

    #[test]
    fn connection_that_was_served_waits_for_the_others() {
        let mut queue = queue(&[(1, 'a'), (2, 'x'), (2, 'y')]);
        assert_eq!(queue.pop(), Some('a'));
        queue.push(1, 'b');
        assert_eq!(rest(queue), "xby");
    }

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
            let body = tonic::body::Body::empty();
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

        /// Requests all clusters on a stream.
        fn request(&self, body: &ResponseBody) {
            let request = DiscoveryRequest {
                node: Some(Node { id: "client".into(), ..Node::default() }),
                type_url: CLUSTER.into(),
                ..DiscoveryRequest::default()
            };
            let message = Bytes::from(request.encode_to_vec());
            self.server.inbox.send(Input::Request(body.stream, message));
        }
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
        assert!(answered < 200, "{answered} of {MANY} were answered first");
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
}
