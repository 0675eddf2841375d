//! `xds serve`: a management server that serves the resources of a directory or of etcd.

mod events;
mod export;
mod ndjson;
mod open_files;
mod origin;
mod redraw;
#[cfg(feature = "kube")]
mod rejections;
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
use xds_core::server::{
    Confirmation, DrainPlan, MakeBeforeBreakPolicy, OrderingPolicy, Readiness, ServerConfig,
    SourcePolicy,
};
use xds_rest::GatewayOptions;
use xds_tokio::{
    ManagementServer, ServerHandle, ServerOptions,
    credentials::{ClientCertificates, ServerCredentials},
    csds::ServerCsdsService,
    server::{AllowSans, Authorizer as _, BoundAddress, ListenAddress, Listener, NodeFromSan},
};

use self::{
    events::{ServeEvent, ServePrinter},
    export::Exporter,
    ndjson::ServeNdjson,
    origin::open_source,
    redraw::Redraw,
    status::Status,
    table::Table,
};
use crate::{
    args::{Ordering, ServeArgs, ServeOutput, ServerTlsArgs},
    directory::{
        DanglingReferences, FollowOptions, FollowedSource, MaxRemoval, ReadinessChange, Rejected,
        Reload,
    },
    failure::Failure,
    output::{self, Layout, ReaderLoss},
    resource_types::JsonPayloads,
    schema::schema,
    stop::Stop,
    style::Style,
};

pub(crate) async fn run(args: ServeArgs, color: ColorChoice) -> Result<(), Failure> {
    let mut stop = Stop::after(args.lifetime)?;
    let notice = match args.output {
        ServeOutput::Table => output::not_printed,
        ServeOutput::Ndjson => output::not_printed_json,
    };
    output::queue_stdout(notice, ReaderLoss::Ignored);
    let mut printer: Box<dyn ServePrinter> = match args.output {
        ServeOutput::Table => {
            let (out, err) = (Style::of(color, &io::stdout()), Style::of(color, &io::stderr()));
            Box::new(Table::new(out, err, Layout::of_stdout(), Redraw::on_terminal()))
        }
        ServeOutput::Ndjson => Box::new(ServeNdjson),
    };
    let options = select! {
        () = stop.requested() => return Ok(()),
        options = server_options(&args) => options?,
    };
    let allowed = allowed_sans(&args.tls)?;
    let mut config = ServerConfig::default()
        .with_ordering(ordering(args.ordering))
        .with_readiness(Readiness::HoldRequests)
        .with_source(source_policy(&args));
    config.limits.decision = Some(MAX_HOLD);
    config.limits.names_per_stream = args.limits.max_names;
    config.limits.names_per_connection = args.limits.max_names;
    config.limits.names = args.limits.max_total_names;
    let origin = select! {
        () = stop.requested() => return Ok(()),
        origin = open_source(&args) => origin?,
    };
    #[cfg(feature = "kube")]
    let (owners, writer) = rejections::writer(&args, origin.kube);
    #[cfg(not(feature = "kube"))]
    let owners = None;
    let follow = FollowOptions {
        consistency: args.external.consistency(),
        dangling: if args.strict {
            DanglingReferences::Rejected
        } else {
            DanglingReferences::Allowed
        },
        max_removal: args.max_removal.map(MaxRemoval),
        validation: args.validate.into(),
        owners,
    };
    let server = ManagementServer::start(config, options);
    let handle = server.handle();
    let (mut followed, first) = select! {
        () = stop.requested() => return Ok(()),
        started = FollowedSource::start(origin.reader, follow, handle.clone()) => started
            .map_err(|why| Failure::Directory { directory: args.source.place(), why })?,
    };
    let is_ready = first.readiness == Some(ReadinessChange::Ready);
    if !is_ready && (args.strict || args.validate) {
        print_errors(&mut *printer, &first)?;
        let dangling = match &first.rejected {
            Some(Rejected::Dangling(dangling)) => *dangling,
            _ => 0,
        };
        let errors: usize = first.errors.iter().map(|it| it.problems.count()).sum();
        let errors = u32::try_from(errors + dangling).unwrap_or(u32::MAX);
        return Err(Failure::NotValid { directory: args.source.place(), errors });
    }
    // Resolving names and writing files may take long.
    let started = select! {
        () = stop.requested() => return Ok(()),
        started = async {
            let listeners = Listeners::bind(&args).await?;
            let exporter = start_export(&args, handle.clone(), is_ready).await?;
            Ok::<_, Failure>((listeners, exporter))
        } => started?,
    };
    let (
        Listeners { grpc: (listen, listener), rest: rest_listener, csds: csds_listener },
        mut exporter,
    ) = started;
    let mut status = Status::new(handle.clone());
    let rest = rest_listener.as_ref().map(|(address, _)| address);
    let csds = csds_listener.as_ref().map(|(address, _)| address);
    printer.print(ServeEvent::Serving {
        directory: &args.source.place(),
        listen: &listen,
        rest,
        csds,
        export: args.export.as_deref(),
        resources: first.resources,
        is_ready,
    })?;
    // Requests are answered only after the errors have been printed.
    print_errors(&mut *printer, &first)?;
    if let Some(ReadinessChange::Waiting(files)) = &first.readiness {
        printer.print(ServeEvent::NotReady { files })?;
    }
    #[cfg(feature = "kube")]
    if let Some(writer) = writer {
        tokio::spawn(writer.run(handle.clone()));
    }
    let mut serving = tokio::spawn(server.serve(listener));
    let mut services = Vec::new();
    if let Some((_, listener)) = rest_listener {
        let gateway = GatewayOptions::default()
            .with_hold(args.rest_hold)
            .with_max_request_bytes(args.limits.max_request_bytes);
        services.push(tokio::spawn(server.serve_rest(listener, schema(), gateway)));
    }
    if let Some((_, listener)) = csds_listener {
        let service = ServerCsdsService::new(handle.clone());
        let service = match allowed {
            Some(allowed) => service.with_authorizer(allowed),
            None => service.with_unrestricted_access(),
        };
        let routes = Routes::new(service).add_service(server.health());
        services.push(tokio::spawn(server.serve_routes(listener, routes)));
    }

    let mut is_printing = true;
    let ended = loop {
        select! {
            () = stop.requested() => break Ok(()),
            why = output::reader_gone(), if is_printing => {
                tracing::warn!("{why}; the server continues to serve without output");
                is_printing = false;
            }
            Some(reload) = followed.next() => {
                if let Err(failed) = print_reload(&mut *printer, &reload) {
                    break Err(failed);
                }
                let is_changed =
                    reload.applied.is_some() || reload.readiness == Some(ReadinessChange::Ready);
                if is_changed
                    && let Some(exporter) = &mut exporter
                    && let Err(why) = exporter.write().await
                {
                    tracing::warn!(%why, "cannot export the resources");
                }
                status.note_change();
            }
            // The newest state waits for the reader and is not dropped.
            changes = async {
                output::room().await?;
                Ok::<_, Failure>(status.next().await)
            } => {
                let printed = changes.and_then(|it| printer.print(ServeEvent::Status(&it)));
                if let Err(failed) = printed {
                    break Err(failed);
                }
            }
            result = &mut serving => return match result {
                Ok(Ok(())) => Err(Failure::Serving("unexpected end".to_owned())),
                Ok(Err(why)) => Err(Failure::Serving(why.to_string())),
                Err(why) => Err(Failure::Serving(why.to_string())),
            },
        }
    };
    // Clients are notified of the shutdown, so that they connect to another server at once (M14).
    let plan = DrainPlan { period: Duration::ZERO, grace_period: ANSWER_TIME };
    let _ = timeout(SHUTDOWN_LIMIT, async {
        handle.drain(plan).await;
        (&mut serving).await
    })
    .await;
    // Dropping a listener removes its socket file.
    services.push(serving);
    services.iter().for_each(JoinHandle::abort);
    while !services.iter().all(JoinHandle::is_finished) {
        yield_now().await;
    }
    ended
}

/// Returns the policy for a source that other servers may follow too.
fn source_policy(args: &ServeArgs) -> SourcePolicy {
    let mut policy = SourcePolicy::default();
    if args.source.directory().is_none() {
        policy = policy.with_confirmation(Confirmation::EachStream);
    }
    if let Some(staleness) = args.max_staleness {
        policy = policy.with_max_staleness(staleness);
    }
    policy
}

/// Time for which requests are held while files have yet to become valid.
///
/// The sum of this and the waits of the ordering policy is less than 15 s, after which Envoy and
/// gRPC conclude that a resource does not exist.
const MAX_HOLD: Duration = Duration::from_secs(8);

/// Bound address and its listener.
type Bound = (BoundAddress, Listener);

/// Listeners that the flags select.
struct Listeners {
    grpc: Bound,
    rest: Option<Bound>,
    csds: Option<Bound>,
}

impl Listeners {
    async fn bind(args: &ServeArgs) -> Result<Self, Failure> {
        Ok(Self {
            grpc: bind(&args.listen, args).await?,
            rest: bind_if(args.rest.as_deref(), args).await?,
            csds: bind_if(args.csds.as_deref(), args).await?,
        })
    }
}

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

/// Creates the export if `--export` is given. Nothing is written before the server is ready:
/// existing files contain the resources that were served last.
async fn start_export(
    args: &ServeArgs,
    server: ServerHandle,
    is_ready: bool,
) -> Result<Option<Exporter>, Failure> {
    let Some(to) = &args.export else { return Ok(None) };
    let mut exporter = Exporter::new(to, args.source.directory(), server)?;
    if is_ready {
        let failure = |why| Failure::Export { directory: to.clone(), why };
        exporter.write().await.map_err(failure)?;
    }
    Ok(Some(exporter))
}

/// Returns the transport options that the flags select.
async fn server_options(args: &ServeArgs) -> Result<ServerOptions, Failure> {
    let limits = &args.limits;
    let connections =
        open_files::connections_for(args.source.directory(), limits.max_connections).await;
    let mut options = ServerOptions::default()
        .with_payload_printer(JsonPayloads)
        .with_max_connections(connections)
        .with_max_request_bytes(limits.max_request_bytes)
        .with_max_incomplete_bytes(
            // A single request fits.
            (limits.max_incomplete_bytes / 4).max(limits.max_request_bytes),
            limits.max_incomplete_bytes,
        )
        .with_max_unread_bytes(limits.max_unread_bytes / 4, limits.max_unread_bytes)
        .with_request_limit_advice("xds serve --max-request-bytes sets the limit")
        .with_name_limit_advice(
            "xds serve --max-names sets the limit",
            "xds serve --max-total-names sets the limit",
        );
    if let Some(connections) = limits.max_connections_per_address {
        options = options.with_max_connections_per_address(connections);
    }
    if let Some(credentials) = credentials(&args.tls).await? {
        options = options.with_credentials(credentials);
    }
    Ok(match (allowed_sans(&args.tls)?, args.tls.node_from_san) {
        (None, false) => options,
        (None, true) => options.with_authorizer(NodeFromSan),
        (Some(allowed), false) => options.with_authorizer(allowed),
        (Some(allowed), true) => options.with_authorizer(allowed.and(NodeFromSan)),
    })
}

/// Returns the names of client certificates that the flags allow; `None` for all.
fn allowed_sans(flags: &ServerTlsArgs) -> Result<Option<AllowSans>, Failure> {
    if flags.allow_san.is_empty() {
        return Ok(None);
    }
    let allowed = AllowSans::new(&flags.allow_san);
    allowed.map(Some).map_err(|why| Failure::Usage(format!("--allow-san: {why}")))
}

/// Returns the credentials that the flags select; `None` without TLS.
async fn credentials(flags: &ServerTlsArgs) -> Result<Option<ServerCredentials>, Failure> {
    let (Some(certificate), Some(private_key)) = (&flags.tls_cert, &flags.tls_key) else {
        return Ok(None);
    };
    let (certificate, private_key) = (certificate.clone(), private_key.clone());
    let mut credentials = ServerCredentials::tls(IdentityFiles { certificate, private_key });
    if let Some(authority) = &flags.client_ca {
        credentials = credentials.with_client_authority(authority, ClientCertificates::Required);
        credentials = credentials.with_revocation_lists(&flags.crl);
    }
    let wrong = |why| Failure::Credentials { field: flags.flag_of(&why), why };
    credentials.check().await.map_err(wrong)?;
    Ok(Some(credentials))
}

/// Time that clients have to answer the last responses when the server shuts down.
const ANSWER_TIME: Duration = Duration::from_millis(250);
/// Time until the server closes connections that clients have not closed.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);

fn ordering(chosen: Ordering) -> OrderingPolicy {
    match chosen {
        Ordering::Off => OrderingPolicy::Off,
        Ordering::Order => OrderingPolicy::OrderOnly,
        Ordering::MakeBeforeBreak => {
            OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default())
        }
    }
}

/// Prints the result of a change of the files.
fn print_reload(printer: &mut dyn ServePrinter, reload: &Reload) -> Result<(), Failure> {
    print_errors(printer, reload)?;
    let resources = reload.resources;
    match (&reload.readiness, reload.applied) {
        (Some(ReadinessChange::Waiting(files)), _) => printer.print(ServeEvent::NotReady { files }),
        (Some(ReadinessChange::Ready), _) => printer.print(ServeEvent::Ready { resources }),
        (None, Some(applied)) => {
            let changes = &reload.changes;
            printer.print(ServeEvent::Reloaded { resources, applied, changes })
        }
        (None, None) => Ok(()),
    }
}

fn print_errors(printer: &mut dyn ServePrinter, reload: &Reload) -> Result<(), Failure> {
    reload.errors.iter().try_for_each(|error| printer.print(ServeEvent::FileError(error)))?;
    reload.repaired.iter().try_for_each(|file| printer.print(ServeEvent::Repaired(file)))?;
    reload.dangling.iter().try_for_each(|finding| printer.print(ServeEvent::Dangling(finding)))?;
    let resources = reload.resources;
    match &reload.rejected {
        Some(rejected) => printer.print(ServeEvent::Rejected { rejected, resources }),
        None => Ok(()),
    }
}
