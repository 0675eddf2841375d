//! `xds serve`: a management server that serves the resources of a directory or of etcd.

mod admission;
mod events;
mod export;
mod listeners;
mod load_reports;
mod metrics;
mod ndjson;
mod open_files;
mod origin;
mod redraw;
#[cfg(any(feature = "etcd", feature = "kube"))]
mod rejections;
mod rollouts;
mod served_files;
mod service_manager;
mod setup;
mod status;
mod table;
mod write_failures;

use std::{io, sync::Arc};

use clap::ColorChoice;
use futures_util::future::join;
use tokio::{
    select,
    task::{JoinHandle, spawn_blocking, yield_now},
    time::{Duration, timeout},
};
use tonic::service::Routes;
use xds_core::rollout::RolloutPhase;
use xds_format::has_sensitive_fields;
use xds_rest::GatewayOptions;
use xds_tokio::{
    ManagementServer, ServerHandle, credentials::ServerCredentials, csds::ServerCsdsService,
    server::AllowSans,
};

use self::{
    events::{ServeEvent, ServePrinter},
    export::Exporter,
    listeners::Listeners,
    load_reports::LoadReports,
    metrics::Reporter,
    ndjson::ServeNdjson,
    origin::{OpenedSource, open_source, subdirectories},
    redraw::Redraw,
    service_manager::ServiceManager,
    setup::{allowed_sans, credentials, drain_plan, server_config, server_options},
    status::Status,
    table::{Table, awaited},
    write_failures::WriteFailures,
};
use crate::{
    args::{ServeArgs, ServeOutput, SourceAddress},
    diagnostic::{Diagnostic, Level, Rule},
    directory::{
        FollowOptions, FollowedSource, FollowedViews, ReadinessChange, Refused, Reload,
        SourceMetrics, ViewsChange,
    },
    failure::Failure,
    output::{self, Layout, ReaderLoss},
    rollouts::RolloutObserver,
    schema::schema,
    stop::Stop,
    style::Style,
    views,
};

pub(crate) async fn run(args: ServeArgs, color: ColorChoice) -> Result<(), Failure> {
    args.check()?;
    let mut printer = printer(&args, color);
    let mut loads = LoadReports::new(&args);
    let Prepared { server, source, follow, mut rollouts, metrics, allowed, credentials } =
        prepare(&args, &mut *printer, &loads).await?;
    #[cfg(any(feature = "etcd", feature = "kube"))]
    let (follow, writer) = {
        let (feedback, writer) = rejections::writer(source.feedback, &args.source);
        (FollowOptions { feedback, ..follow }, writer)
    };
    let handle = server.handle();
    if let Some(views) = &follow.views {
        tokio::spawn(Arc::clone(views.selection()).track(handle.clone()));
    }
    let (mut followed, first) = FollowedSource::start(source.reader, follow, handle.clone())
        .await
        .map_err(|why| Failure::Directory { directory: args.source.place(), why })?;
    let is_ready = first.readiness == Some(ReadinessChange::Ready);
    if !is_ready && (args.strict || args.validate) {
        return Err(not_valid(&args, &mut *printer, &first));
    }
    let listeners = Listeners::bind(&args).await?;
    let failures = Arc::<WriteFailures>::default();
    let mut exporter = start_export(&args, handle.clone(), is_ready, &failures).await?;
    let mut stop = Stop::after(args.lifetime)?;
    print_start(&args, &mut *printer, &first, &listeners)?;
    let counts = rollouts.as_ref().map(|it| Arc::clone(it.counts()));
    #[cfg(any(feature = "etcd", feature = "kube"))]
    if let Some(writer) = writer {
        tokio::spawn(writer.run(handle.clone(), counts.clone(), Arc::clone(&failures)));
    }
    let mut status = Status::new(handle.clone());
    let reporter = Reporter {
        server: Arc::clone(&server),
        address: args.source.clone(),
        source: metrics,
        rollouts: counts,
        loads: loads.collector.clone(),
        credentials,
        failures,
    };
    let (mut serving, services) = serve(&args, &server, listeners, allowed, reporter);
    let mut service_manager = ServiceManager::new(args.source.clone());
    service_manager.note(&first);
    note_readiness(&handle, &args.source, &first).await;

    let mut is_printing = true;
    let ended = loop {
        select! {
            () = stop.requested() => break Ok(()),
            why = output::reader_gone(), if is_printing => {
                tracing::warn!("{why}; the server continues to serve without output");
                is_printing = false;
            }
            Some(reload) = followed.next() => {
                if let Err(failed) = print_reload(&args.source, &mut *printer, &reload) {
                    break Err(failed);
                }
                service_manager.note(&reload);
                note_readiness(&handle, &args.source, &reload).await;
                let is_changed =
                    reload.applied.is_some() || reload.readiness == Some(ReadinessChange::Ready);
                if is_changed && let Some(exporter) = &mut exporter {
                    exporter.write_or_warn().await;
                }
                status.note_change();
            }
            Some(progress) = async {
                match &mut rollouts {
                    Some(rollouts) => rollouts.next().await,
                    None => core::future::pending().await,
                }
            } => {
                if let Err(failed) = printer.print(ServeEvent::Rollout(&progress)) {
                    break Err(failed);
                }
                if progress.phase == RolloutPhase::Completed
                    && let Some(exporter) = &mut exporter
                {
                    exporter.write_or_warn().await;
                }
                status.note_change();
            }
            Some(load) = loads.next() => {
                if let Err(failed) = printer.print(ServeEvent::LoadReport(&load)) {
                    break Err(failed);
                }
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
    service_manager.stopping();
    let leave = async {
        if let Some(rollouts) = &rollouts {
            rollouts.leave().await;
        }
    };
    join(leave, shut_down(&handle, args.drain_time, serving, services)).await;
    ended
}

fn printer(args: &ServeArgs, color: ColorChoice) -> Box<dyn ServePrinter> {
    let notice = match args.output {
        ServeOutput::Table => output::not_printed,
        ServeOutput::Ndjson => output::not_printed_json,
    };
    output::queue_stdout(notice, ReaderLoss::Ignored);
    match args.output {
        ServeOutput::Table => {
            let (out, err) = (Style::of(color, &io::stdout()), Style::of(color, &io::stderr()));
            let (layout, redraw) = (Layout::of_stdout(), Redraw::on_terminal());
            Box::new(Table::new(out, err, layout, redraw, args.source.clone()))
        }
        ServeOutput::Ndjson => Box::new(ServeNdjson),
    }
}

/// Server that has no resources yet, and what it needs.
struct Prepared {
    server: Arc<ManagementServer>,
    source: OpenedSource,
    follow: FollowOptions,
    rollouts: Option<RolloutObserver>,
    metrics: Arc<SourceMetrics>,
    allowed: Option<AllowSans>,
    credentials: Option<ServerCredentials>,
}

async fn prepare(
    args: &ServeArgs,
    printer: &mut dyn ServePrinter,
    loads: &LoadReports,
) -> Result<Prepared, Failure> {
    let views = follow_views(args, printer).await?;
    let selection = views.as_ref().map(|views| Arc::clone(views.selection()));
    let settings = rollouts::settings(args, printer)?;
    let credentials = credentials(&args.tls).await?;
    let loads = loads.collector.clone();
    let options =
        server_options(args, selection, settings.as_ref(), loads, credentials.clone()).await?;
    let source = open_source(args).await?;
    let metrics = Arc::<SourceMetrics>::default();
    let server = Arc::new(ManagementServer::start(server_config(args), options));
    let (rollouts, observer) = match settings {
        Some(settings) => {
            let started = rollouts::start(settings, args, &source, server.handle()).await?;
            (Some(started.0), Some(started.1))
        }
        None => (None, None),
    };
    let follow = FollowOptions {
        consistency: args.external.consistency(),
        guards: args.guards(),
        validation: args.validate.into(),
        feedback: None,
        views,
        rollouts,
        metrics: Arc::clone(&metrics),
    };
    let allowed = allowed_sans(&args.tls)?;
    Ok(Prepared { server, source, follow, rollouts: observer, metrics, allowed, credentials })
}

/// Reads the file of views, and begins to watch it.
async fn follow_views(
    args: &ServeArgs,
    printer: &mut dyn ServePrinter,
) -> Result<Option<FollowedViews>, Failure> {
    let Some(file) = &args.views else { return Ok(None) };
    let path = file.clone();
    let unreadable = |why| Failure::Unreadable { file: file.clone(), why };
    let read = spawn_blocking(move || views::read(&path)).await.map_err(io::Error::other);
    match read.map_err(unreadable)? {
        Ok(views) => FollowedViews::start(file, views).map(Some).map_err(unreadable),
        Err(errors) => {
            printer.print(ServeEvent::InvalidSettings(&errors))?;
            let errors = u32::try_from(errors.len()).unwrap_or(u32::MAX);
            Err(Failure::InvalidViews { file: file.clone(), errors })
        }
    }
}

/// Prints what is wrong with the source at the start.
fn not_valid(args: &ServeArgs, printer: &mut dyn ServePrinter, first: &Reload) -> Failure {
    if let Err(failed) = print_errors(&args.source, printer, first) {
        return failed;
    }
    let refused = first.refused.as_ref();
    let dangling = refused.map_or(0, Refused::dangling);
    // A violation about references counts as these.
    let other = refused.map_or(0, |it| it.change.violations.len() - usize::from(dangling > 0));
    let errors: usize = first.errors.iter().map(|it| it.problems.count()).sum();
    let errors = u32::try_from(errors + dangling + other).unwrap_or(u32::MAX);
    Failure::NotValid { directory: args.source.place(), errors }
}

/// Prints the addresses, and what is wrong with the source. Requests are answered only after that.
fn print_start(
    args: &ServeArgs,
    printer: &mut dyn ServePrinter,
    first: &Reload,
    listeners: &Listeners,
) -> Result<(), Failure> {
    printer.print(ServeEvent::Serving {
        directory: &args.source.place(),
        listen: &listeners.grpc.0,
        rest: listeners.rest.as_ref().map(|(address, _)| address),
        csds: listeners.csds.as_ref().map(|(address, _)| address),
        metrics: listeners.metrics.as_ref().map(|(address, _)| *address),
        export: args.export.as_deref(),
        resources: first.resources,
        is_ready: first.readiness == Some(ReadinessChange::Ready),
    })?;
    print_errors(&args.source, printer, first)?;
    if first.readiness == Some(ReadinessChange::Ready) && first.resources == 0 {
        let text = "there are no resources: clients get empty responses";
        let place = args.source.place();
        let finding = Diagnostic::new(Rule::NoResources, Level::Warning, &place, text);
        printer.print(ServeEvent::Finding(&finding))?;
    }
    match &first.readiness {
        Some(ReadinessChange::Waiting(files)) => printer.print(ServeEvent::NotReady { files }),
        _ => match first.rollout {
            Some(rollout) => {
                printer.print(ServeEvent::RolloutBegins { rollout, changes: &first.changes })
            }
            None => Ok(()),
        },
    }
}

/// Reports in client status what the server waits for, until it is ready.
async fn note_readiness(handle: &ServerHandle, source: &SourceAddress, reload: &Reload) {
    let why = match &reload.readiness {
        Some(ReadinessChange::Waiting(files)) => {
            Some(format!("not ready: {}", awaited(files, source)).into())
        }
        Some(ReadinessChange::Ready) if reload.refused.is_none() => None,
        Some(ReadinessChange::Ready) | None => return,
    };
    // An error means that the server has ended.
    let _ = handle.source_refused(why).await;
}

/// Task of a listener.
type Serving = JoinHandle<io::Result<()>>;

/// Serves all listeners. Returns the task of discovery over gRPC, and those of the others.
fn serve(
    args: &ServeArgs,
    server: &Arc<ManagementServer>,
    listeners: Listeners,
    allowed: Option<AllowSans>,
    reporter: Reporter,
) -> (Serving, Vec<Serving>) {
    let Listeners { grpc: (_, listener), rest, csds, metrics } = listeners;
    let mut services = Vec::new();
    if let Some((_, listener)) = rest {
        let gateway = GatewayOptions::default()
            .with_hold(args.rest_hold)
            .with_max_request_bytes(args.limits.max_request_bytes.get());
        services.push(tokio::spawn(server.serve_rest(listener, schema(), gateway)));
    }
    if let Some((_, listener)) = csds {
        let is_secret =
            |type_url: &str, bytes: &[u8]| has_sensitive_fields(schema(), type_url, bytes);
        let service = ServerCsdsService::new(server.handle()).with_secret_check(is_secret);
        let service = match allowed {
            Some(allowed) => service.with_authorizer(allowed),
            None => service.with_unrestricted_access(),
        };
        let routes = Routes::new(service).add_service(server.health());
        services.push(tokio::spawn(server.serve_routes(listener, routes)));
    }
    if let Some((_, listener)) = metrics {
        let reporter = Arc::new(reporter);
        services.push(tokio::spawn(async {
            metrics::serve(listener, reporter).await;
            Ok(())
        }));
    }
    (tokio::spawn(server.serve(listener)), services)
}

/// Ends the server within this time.
async fn shut_down(
    handle: &ServerHandle,
    limit: Duration,
    mut serving: Serving,
    mut services: Vec<Serving>,
) {
    // Clients are notified of the shutdown, so that they connect to another server at once (M14).
    let _ = timeout(limit, async {
        handle.drain(drain_plan(limit)).await;
        (&mut serving).await
    })
    .await;
    // Dropping a listener removes its socket file.
    services.push(serving);
    services.iter().for_each(JoinHandle::abort);
    while !services.iter().all(JoinHandle::is_finished) {
        yield_now().await;
    }
}

/// Creates the export if `--export` is given. Nothing is written before the server is ready:
/// existing files contain the resources that were served last.
async fn start_export(
    args: &ServeArgs,
    server: ServerHandle,
    is_ready: bool,
    failures: &Arc<WriteFailures>,
) -> Result<Option<Exporter>, Failure> {
    let Some(to) = &args.export else { return Ok(None) };
    let served = args.source.directory();
    let failures = Arc::clone(failures);
    let mut exporter = Exporter::new(to, served, subdirectories(args), server, failures)?;
    if is_ready {
        let failure = |why| Failure::Export { directory: to.clone(), why };
        exporter.write().await.map_err(failure)?;
    }
    Ok(Some(exporter))
}

/// Prints the result of a change of the files.
fn print_reload(
    source: &SourceAddress,
    printer: &mut dyn ServePrinter,
    reload: &Reload,
) -> Result<(), Failure> {
    print_errors(source, printer, reload)?;
    let resources = reload.resources;
    match (&reload.readiness, reload.applied) {
        (Some(ReadinessChange::Waiting(files)), _) => printer.print(ServeEvent::NotReady { files }),
        (Some(ReadinessChange::Ready), _) => printer.print(ServeEvent::Ready { resources }),
        (None, Some(applied)) => {
            let changes = &reload.changes;
            printer.print(ServeEvent::Reloaded { resources, applied, changes })
        }
        (None, None) => Ok(()),
    }?;
    match reload.rollout {
        Some(rollout) => {
            printer.print(ServeEvent::RolloutBegins { rollout, changes: &reload.changes })
        }
        None => Ok(()),
    }
}

fn print_errors(
    source: &SourceAddress,
    printer: &mut dyn ServePrinter,
    reload: &Reload,
) -> Result<(), Failure> {
    reload.errors.iter().try_for_each(|error| printer.print(ServeEvent::FileError(error)))?;
    reload.repaired.iter().try_for_each(|file| printer.print(ServeEvent::Repaired(file)))?;
    reload.findings.iter().try_for_each(|finding| printer.print(ServeEvent::Finding(finding)))?;
    let resources = reload.resources;
    if let Some(refused) = &reload.refused {
        printer.print(ServeEvent::Refused { refused, source, resources })?;
    }
    if let Some(forced) = &reload.forced {
        printer.print(ServeEvent::Forced(forced))?;
    }
    match &reload.views {
        Some(ViewsChange::Invalid(errors)) => printer.print(ServeEvent::InvalidSettings(errors)),
        Some(ViewsChange::Rejected) => printer.print(ServeEvent::ViewsRejected),
        Some(ViewsChange::Used(moved)) => printer.print(ServeEvent::ViewsUsed(*moved)),
        None => Ok(()),
    }
}
