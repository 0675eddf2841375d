//! `xds serve`: a management server that serves a directory.

mod events;
mod export;
mod ndjson;
mod status;
mod table;

use std::io;

use clap::ColorChoice;
use tokio::{
    select,
    task::{JoinHandle, yield_now},
    time::{Duration, timeout},
};
use tonic::service::Routes;
use xds_bootstrap::IdentityFiles;
use xds_core::server::{AckGated, DrainPlan, OrderingPolicy, Readiness, ServerConfig};
use xds_format::Schema;
use xds_rest::GatewayOptions;
use xds_tokio::{
    ManagementServer, ServerOptions,
    credentials::{ClientCertificates, ServerCredentials},
    csds::ServerCsdsService,
    server::{BoundAddress, ListenAddress, Listener},
};

use self::{events::Event, export::Exporter, ndjson::Ndjson, status::Status, table::Table};
use crate::{
    args::{Ordering, ServeArgs, ServeOutput, ServerTlsArgs},
    directory::{Dangling, Demands, Followed, Reload},
    failure::Failure,
    resource_types::JsonPayloads,
    stop::Stop,
    style::Style,
};

pub(crate) async fn run(args: ServeArgs, color: ColorChoice) -> Result<(), Failure> {
    let mut stop = Stop::after(args.lifetime)?;
    let mut printer: Box<dyn Printer> = match args.output {
        ServeOutput::Table => {
            Box::new(Table::new(Style::of(color, &io::stdout()), Style::of(color, &io::stderr())))
        }
        ServeOutput::Ndjson => Box::new(Ndjson),
    };
    let (listen, listener) = select! {
        () = stop.requested() => return Ok(()),
        bound = bind(&args.listen, &args) => bound?,
    };
    let rest_listener = bind_if(args.rest.as_deref(), &args).await?;
    let csds_listener = bind_if(args.csds.as_deref(), &args).await?;

    let mut options = ServerOptions::default().with_payload_printer(JsonPayloads);
    if let Some(credentials) = credentials(&args.tls).await? {
        options = options.with_credentials(credentials);
    }
    let mut config = ServerConfig::default();
    config.ordering = ordering(args.ordering);
    let demands = Demands {
        consistency: args.elsewhere.consistency(),
        dangling: if args.strict { Dangling::Refused } else { Dangling::Served },
        validation: args.validate.into(),
    };
    if demands.dangling == Dangling::Refused {
        config.readiness = Readiness::NotReady;
    }
    let server = ManagementServer::start(config, options);
    let handle = server.handle();
    let (mut followed, first) = select! {
        () = stop.requested() => return Ok(()),
        started = Followed::start(&args.directory, demands, handle.clone()) => started
            .map_err(|why| Failure::Directory { directory: args.directory.clone(), why })?,
    };
    // What is not served is not exported: the files say what was served last.
    let mut exporter = match &args.export {
        Some(to) => Some(Exporter::new(to, &args.directory, handle.clone())?),
        None => None,
    };
    if let (Some(exporter), None, Some(to)) = (&mut exporter, first.refused, &args.export) {
        let failure = |why| Failure::Export { directory: to.clone(), why };
        exporter.write().await.map_err(failure)?;
    }
    let mut status = Status::new(handle.clone());
    let rest = rest_listener.as_ref().map(|(address, _)| address);
    let csds = csds_listener.as_ref().map(|(address, _)| address);
    printer.print(Event::Serving {
        directory: &args.directory,
        listen: &listen,
        rest,
        csds,
        resources: first.resources,
    })?;
    // Who connects is answered once what is wrong has been said.
    print_errors(&mut *printer, &first)?;
    let mut serving = tokio::spawn(server.serve(listener));
    let mut beside = Vec::new();
    if let Some((_, listener)) = rest_listener {
        let gateway = GatewayOptions::default().with_hold(args.rest_hold);
        beside.push(tokio::spawn(server.serve_rest(listener, Schema::envoy(), gateway)));
    }
    if let Some((_, listener)) = csds_listener {
        let routes = Routes::new(ServerCsdsService::new(handle.clone()).open_to_everybody());
        let routes = routes.add_service(server.health());
        beside.push(tokio::spawn(server.serve_routes(listener, routes)));
    }

    loop {
        select! {
            () = stop.requested() => break,
            Some(reload) = followed.next() => {
                print_errors(&mut *printer, &reload)?;
                if let Some(applied) = reload.applied {
                    let resources = reload.resources;
                    printer.print(Event::Reloaded { resources, applied })?;
                    if let Some(exporter) = &mut exporter
                        && let Err(why) = exporter.write().await
                    {
                        tracing::warn!(%why, "cannot export");
                    }
                }
                status.note_change();
            }
            rows = status.next() => printer.print(Event::Status(&rows))?,
            result = &mut serving => return match result {
                Ok(Ok(())) => Err(Failure::Serving("it has ended by itself".to_owned())),
                Ok(Err(why)) => Err(Failure::Serving(why.to_string())),
                Err(why) => Err(Failure::Serving(why.to_string())),
            },
        }
    }
    // Clients are told, so that they look for another server at once (M14).
    let plan = DrainPlan { over: Duration::ZERO, grace: ANSWER };
    let _ = timeout(FAREWELL, async {
        handle.drain(plan).await;
        (&mut serving).await
    })
    .await;
    // Socket files go with their listeners.
    beside.push(serving);
    beside.iter().for_each(JoinHandle::abort);
    while !beside.iter().all(JoinHandle::is_finished) {
        yield_now().await;
    }
    Ok(())
}

/// A listener, and where it is.
type Bound = (BoundAddress, Listener);

async fn bind(address: &str, args: &ServeArgs) -> Result<Bound, Failure> {
    let listening = |why| Failure::Listen { address: address.to_owned(), why };
    let wrong = |fault| listening(io::Error::new(io::ErrorKind::InvalidInput, fault));
    let at = match address.parse::<ListenAddress>().map_err(wrong)? {
        ListenAddress::Unix(socket) => ListenAddress::Unix(socket.with_mode(args.socket_mode)),
        at => at,
    };
    let (listener, bound) = ManagementServer::bind(&at).await.map_err(listening)?;
    Ok((bound, listener))
}

async fn bind_if(address: Option<&str>, args: &ServeArgs) -> Result<Option<Bound>, Failure> {
    match address {
        Some(address) => bind(address, args).await.map(Some),
        None => Ok(None),
    }
}

/// What the flags say of TLS; `None` if they leave it out.
async fn credentials(flags: &ServerTlsArgs) -> Result<Option<ServerCredentials>, Failure> {
    let (Some(certificate), Some(private_key)) = (&flags.tls_cert, &flags.tls_key) else {
        return Ok(None);
    };
    let (certificate, private_key) = (certificate.clone(), private_key.clone());
    let mut credentials = ServerCredentials::tls(IdentityFiles { certificate, private_key });
    if let Some(authority) = &flags.client_ca {
        credentials = credentials.with_client_authority(authority, ClientCertificates::Required);
    }
    let wrong = |why| Failure::Credentials { field: flags.flag_of(&why), why };
    credentials.check().await.map_err(wrong)?;
    Ok(Some(credentials))
}

/// How long a client may take to answer what is on its way.
const ANSWER: Duration = Duration::from_millis(250);
/// And to close its connection after that.
const FAREWELL: Duration = Duration::from_millis(500);

/// A way to say what happens.
trait Printer {
    fn print(&mut self, event: Event<'_>) -> Result<(), Failure>;
}

fn ordering(chosen: Ordering) -> OrderingPolicy {
    match chosen {
        Ordering::Off => OrderingPolicy::Off,
        Ordering::Order => OrderingPolicy::OrderOnly,
        Ordering::AckGated => OrderingPolicy::AckGated(AckGated::default()),
    }
}

fn print_errors(printer: &mut dyn Printer, reload: &Reload) -> Result<(), Failure> {
    reload.errors.iter().try_for_each(|error| printer.print(Event::FileError(error)))?;
    reload.dangling.iter().try_for_each(|finding| printer.print(Event::Dangling(finding)))?;
    let resources = reload.resources;
    reload.refused.map_or(Ok(()), |refused| printer.print(Event::Refused { refused, resources }))
}
