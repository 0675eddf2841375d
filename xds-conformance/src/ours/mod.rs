//! Adapters of this repository for any runtime, and their test cases as `libtest-mimic` tests.

mod both;
mod pair;
mod shutdown;
#[cfg(unix)]
mod unix;

use core::{marker::PhantomData, net::SocketAddr, time::Duration};

use libtest_mimic::Trial;
use smol::block_on;
use xds_bootstrap::CallCredentials;
use xds_core::{
    client::ClientConfig,
    server::{DrainPlan, ServerConfig, Transaction},
};
use xds_format::Schema;
use xds_grpc::{
    ClientOptions, Credentials, Keepalive, ManagementServer, ServerHandle, ServerOptions,
    client::connect, runtime::Listen, socket::AddressFamilies,
};
use xds_handle::ClientHandle;
use xds_rest::GatewayOptions;

use crate::{
    Case, ClientAdapter, ClientSettings, RestServerAdapter, RunningServer, ServerAdapter,
    ServerSettings, client, server,
};

/// Returns all cases as tests that run on `R`.
///
/// The value that `enter` returns is held during each test, because some runtimes must be entered.
pub fn trials<R: Listen + Default, E: 'static>(runtime: &str, enter: fn() -> E) -> Vec<Trial> {
    let clients = [("client", client::GRPC), ("rest", client::REST), ("files", client::FILES)];
    let clients = clients.into_iter().flat_map(|(kind, cases)| {
        cases.iter().map(move |case| {
            trial(runtime, kind, case, enter, |run| run(&ProjectAdapter::<R>(PhantomData)))
        })
    });
    let servers = server::GRPC.iter().map(|case| {
        trial(runtime, "server", case, enter, |run| run(&ProjectAdapter::<R>(PhantomData)))
    });
    let polled = server::REST.iter().map(|case| {
        trial(runtime, "gateway", case, enter, |run| run(&ProjectAdapter::<R>(PhantomData)))
    });
    clients.chain(servers).chain(polled).chain(trials_of_both::<R, R, E>(runtime, enter)).collect()
}

/// Returns the tests of a client on `C` with a server on `S`.
///
/// The value that `enter` returns is held during each test.
pub fn trials_of_both<C: Listen + Default, S: Listen + Default, E: 'static>(
    runtimes: &str,
    enter: fn() -> E,
) -> Vec<Trial> {
    #[cfg(unix)]
    let sockets: &[(&str, fn())] = &[
        ("streams over a Unix socket", || block_on(unix::stream::<C, S>())),
        ("polls over a Unix socket", || block_on(unix::polls::<C, S>())),
        ("streams with TLS over a Unix socket", || block_on(unix::secured::<C, S>())),
        ("a socket file is kept while in use, and removed at the end", || {
            block_on(unix::file::<C, S>())
        }),
        ("the server's shutdown ends the peer's read over a Unix socket", || {
            block_on(shutdown::unix::<S>())
        }),
    ];
    #[cfg(not(unix))]
    let sockets: &[(&str, fn())] = &[];
    let cases: [(&str, fn()); 5] = [
        ("a poll is held until something changes", || block_on(both::held_poll::<C, S>())),
        ("streams over TLS require a valid certificate", || {
            block_on(both::secured_stream::<C, S>())
        }),
        ("polls over TLS require a valid certificate", || block_on(both::secured_polls::<C, S>())),
        ("client status of client and server, and health", || {
            block_on(both::status_and_health::<C, S>())
        }),
        ("the server's shutdown ends the peer's read over TCP", || block_on(shutdown::tcp::<S>())),
    ];
    let trial = |(name, case): (&str, fn())| {
        Trial::test(format!("{runtimes}: both: {name}"), move || {
            let _entered = enter();
            case();
            Ok(())
        })
    };
    cases.iter().chain(sockets).copied().map(trial).collect()
}

fn trial<A: ?Sized, E: 'static>(
    runtime: &str,
    kind: &str,
    case: &'static Case<A>,
    enter: fn() -> E,
    run: fn(fn(&A)),
) -> Trial {
    Trial::test(format!("{runtime}: {kind}: {}", case.name), move || {
        let _entered = enter();
        run(case.run);
        Ok(())
    })
}

/// Adapter of this repository for a runtime.
struct ProjectAdapter<R>(PhantomData<fn() -> R>);

impl<R: Listen + Default> ClientAdapter for ProjectAdapter<R> {
    fn connect(&self, config: ClientConfig, settings: &ClientSettings) -> ClientHandle {
        let mut options = ClientOptions::default().with_seed(7);
        if let Some((interval, timeout)) = settings.keepalive {
            options = options.with_keepalive(Keepalive::new(interval, timeout));
        }
        if let Some(timeout) = settings.connect_timeout {
            options = options.with_connect_timeout(timeout);
        }
        if let Some(files) = &settings.tls {
            let mut credentials = Credentials::tls(files.clone());
            if let Some(token) = &settings.token {
                let token = CallCredentials::JwtTokenFile(token.clone());
                credentials = credentials.with_call_credentials(&token);
            }
            options = options.with_credentials("secured".into(), credentials);
        }
        connect(R::default(), config, options)
    }
}

impl<R: Listen + Default> ServerAdapter for ProjectAdapter<R> {
    fn start(&self, config: ServerConfig, settings: &ServerSettings) -> Box<dyn RunningServer> {
        let mut options = ServerOptions::default().with_seed(7).with_max_request_bytes(1 << 20);
        if let Some((interval, timeout)) = settings.keepalive {
            options = options.with_keepalive(Keepalive::new(interval, timeout));
        }
        let server = ManagementServer::<R>::start(config, options);
        let (listener, address) = bound::<R>();
        let serving = server.serve(listener);
        R::default().spawn(Box::pin(async { serving.await.expect("it serves") }));
        Box::new(Running { address, handle: server.handle() })
    }
}

impl<R: Listen + Default> RestServerAdapter for ProjectAdapter<R> {
    fn start_rest(&self, config: ServerConfig, hold: Duration) -> Box<dyn RunningServer> {
        let server = ManagementServer::<R>::start(config, ServerOptions::default().with_seed(7));
        let (listener, address) = bound::<R>();
        let options = GatewayOptions::default().with_hold(hold);
        let serving = server.serve_rest(listener, Schema::envoy(), options);
        R::default().spawn(Box::pin(async { serving.await.expect("it serves") }));
        Box::new(Running { address, handle: server.handle() })
    }
}

fn bound<R: Listen + Default>() -> (R::Listener, SocketAddr) {
    let runtime = R::default();
    let loopback = ([127, 0, 0, 1], 0).into();
    // Some runtimes can only create listeners inside the runtime.
    let listener = block_on(async { runtime.bind(loopback, AddressFamilies::SystemDefault) });
    let listener = listener.expect("loopback");
    let address = runtime.local_address(&listener).expect("it is bound");
    (listener, address)
}

struct Running {
    address: SocketAddr,
    handle: ServerHandle,
}

impl RunningServer for Running {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn apply(&self, change: Transaction) {
        block_on(self.handle.apply(change)).expect("a sound change");
    }

    fn drain(&self) {
        let plan = DrainPlan::new(Duration::from_secs(5));
        block_on(self.handle.drain(plan));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        block_on(self.handle.shut_down());
    }
}
