//! Starts the daemon, and ends it in order.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use access::Lifetimes;
use anyhow::Context;
use api::Places;
use metrics_exporter_prometheus::PrometheusHandle;
use model::SystemClock;
use runtime::{Boot, OnLoss, Runtime};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use vault::KeyRing;

use crate::app::{App, router};
use crate::settings::Settings;
use crate::{data, logs, measure, scrape, serve};

/// Writes through the redactor. There is nobody to tell when a terminal is gone.
pub(crate) fn tell(out: &mut impl Write, text: &str) {
    drop(out.write_all(logs::redactor().scrub(text).as_bytes()));
    drop(out.flush());
}

/// Runs the daemon until it is told to stop.
pub(crate) fn run(places: &Places, settings: Settings, on_loss: OnLoss) -> anyhow::Result<()> {
    logs::start(&settings);
    data::prepare(&settings.data)?;
    let held = data::hold(&settings.data)?;
    let (master, made) = data::master_key(places, &settings)?;
    if let Some(file) = made {
        let text = format!(
            "A master key was made: {}\nKeep a copy elsewhere: without it the store cannot be read.\n",
            file.display()
        );
        tell(&mut std::io::stdout().lock(), &text);
    }
    let ring = Arc::new(KeyRing::new(master));
    let tls = serve::tls(&settings)?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no threads could be started")?;
    threads.block_on(async {
        let boot = boot(&settings, ring, on_loss);
        let runtime = Runtime::boot(boot).await?;
        let listener = TcpListener::bind(settings.listen).await;
        let listener = listener.with_context(|| format!("`{}` cannot be listened on", settings.listen))?;
        let key_file = data::key_file(places, &settings);
        serve_all(runtime, settings, listener, tls, key_file).await
    })?;
    drop(held);
    Ok(())
}

fn boot(settings: &Settings, ring: Arc<KeyRing>, on_loss: OnLoss) -> Boot {
    let lifetimes = Lifetimes { access: settings.token_minutes * 60_000, ..Lifetimes::default() };
    Boot {
        data: settings.data.clone(),
        source: settings.source.clone(),
        ring,
        mode: settings.mode,
        worktree_rbac: settings.worktree_rbac,
        totp_actions: settings.totp_actions.clone(),
        lifetimes,
        clock: Arc::new(SystemClock),
        redactor: logs::redactor().clone(),
        ledger: ledger::Options {
            keep_for: settings.retention_days * 24 * 60 * 60 * 1000,
            ..ledger::Options::default()
        },
        on_loss,
    }
}

async fn serve_all(
    runtime: Arc<Runtime>,
    mut settings: Settings,
    listener: TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    key_file: Option<PathBuf>,
) -> anyhow::Result<()> {
    // Port 0 asks for any free port; from here on the real one counts.
    settings.listen = listener.local_addr()?;
    let recorder = measure::recorder()?;
    let metrics = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("metrics were already set up");
    }
    measure::announce();
    let open = match settings.metrics_listen {
        Some(address) => Some(open_metrics(address).await?),
        None => None,
    };
    let (stop, stopping) = watch::channel(false);
    announce(&runtime, &settings).await?;
    let kept = tokio::spawn(keep_metrics(metrics.clone(), stopping.clone()));
    let app = App::new(Arc::clone(&runtime), settings, metrics, stopping.clone(), key_file);
    let house = tokio::spawn(Arc::clone(&runtime).keep_house(stopping.clone()));
    let watched = tokio::spawn(Arc::clone(&runtime).watch_record(stopping.clone()));
    let scraped = match open {
        Some(listener) => {
            let router = scrape::router(app.clone(), listener.local_addr()?);
            Some(tokio::spawn(serve::serve(listener, None, router, Vec::new(), stopping.clone())))
        }
        None => None,
    };
    let mut holding = tokio::spawn(Arc::clone(&runtime).watch_hold(stopping.clone()));
    let proxies = app.settings.trusted_proxies.clone();
    let serving = tokio::spawn(serve::serve(listener, tls, router(app), proxies, stopping));
    let outcome = tokio::select! {
        told = wait_for_the_end() => told.map_err(anyhow::Error::from),
        // It ends by itself only when the database is somebody else's.
        lost = &mut holding => lost.map_err(anyhow::Error::from).and_then(|lost| Ok(lost?)),
    };
    tracing::info!("stopping");
    stop.send_replace(true);
    let in_order = async {
        drop(serving.await);
        if let Some(scraped) = scraped {
            drop(scraped.await);
        }
        drop(house.await);
        drop(watched.await);
        drop(kept.await);
        runtime.shut_down().await;
    };
    // A second signal does not wait.
    tokio::select! {
        () = in_order => {}
        _ = wait_for_the_end() => tracing::warn!("stopped at once"),
    }
    outcome
}

/// Where a scraper of this machine may look without a credential; it is said where that is.
async fn open_metrics(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("`metrics.listen`: `{address}` cannot be listened on"))?;
    let text = format!("Metrics are open on http://{}/metrics\n", listener.local_addr()?);
    tell(&mut std::io::stdout().lock(), &text);
    Ok(listener)
}

/// Samples are folded together also when nobody reads them; otherwise they would pile up.
async fn keep_metrics(metrics: PrometheusHandle, mut stop: watch::Receiver<bool>) {
    let mut every = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            _ = every.tick() => metrics.run_upkeep(),
            () = stopped(&mut stop) => break,
        }
    }
}

/// Waits until the daemon is told to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

async fn wait_for_the_end() -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// One URL, and for a new installation one link; on the local terminal and nowhere else.
async fn announce(runtime: &Runtime, settings: &Settings) -> anyhow::Result<()> {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let base = match settings.public_url.as_str() {
        "" => format!("{scheme}://{}", settings.listen),
        url => url.to_owned(),
    };
    let mut out = std::io::stdout().lock();
    let mut text = format!("Palisade is listening on {base}\n");
    for setting in &settings.degraded {
        text.push_str(&format!("Weakened by a setting: {setting}\n"));
    }
    tell(&mut out, &text);
    if let Some(secret) = runtime.auth().offer_bootstrap().await? {
        // The one text that must leave with its secret: it goes to the local terminal, once.
        let link = format!(
            "There is no owner yet. Open this link once, within 60 minutes:\n  {base}/setup?secret={0}\nor run:\n  palisade init {0}\n",
            secret.expose()
        );
        out.write_all(link.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}
