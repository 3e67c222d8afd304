//! Starts the daemon, and ends it in order.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use access::Lifetimes;
use anyhow::Context;
use api::Places;
use metrics_exporter_prometheus::PrometheusHandle;
use model::SystemClock;
use runtime::{Boot, OnLoss, Runtime};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use vault::KeyRing;

use crate::app::{App, router};
use crate::logs::{self, tell};
use crate::master::{self, MasterFrom};
use crate::patterns::Patterns;
use crate::settings::{Origin, Settings};
use crate::{data, measure, scrape, serve};

/// To whom the daemon speaks on standard output.
enum Voice {
    /// Somebody at a terminal.
    People,
    /// A program, by `palisade --json up`: one JSON document, and everything else on standard error.
    Program { spoke: AtomicBool },
}

impl Voice {
    fn of_this_process() -> Self {
        match std::env::var_os("PALISADE_UP_JSON") {
            Some(_) => Self::Program { spoke: AtomicBool::new(false) },
            None => Self::People,
        }
    }

    /// Says something by the way.
    fn note(&self, text: &str) {
        match self {
            Self::People => tell(&mut io::stdout().lock(), text),
            Self::Program { .. } => tell(&mut io::stderr().lock(), text),
        }
    }

    /// Says why the daemon did not start; people are told by `main`.
    fn failed(&self, error: &anyhow::Error) {
        if let Self::Program { spoke } = self
            && !spoke.swap(true, Ordering::Relaxed)
        {
            let error = json!({ "code": "program", "message": format!("{error:#}"), "request_id": null });
            let document = json!({ "ok": false, "command": "up", "result": null, "error": error });
            tell(&mut io::stdout().lock(), &format!("{document}\n"));
        }
    }
}

/// Runs the daemon until it is told to stop.
pub(crate) fn run(places: &Places, settings: Settings, on_loss: OnLoss) -> anyhow::Result<()> {
    let voice = Voice::of_this_process();
    let outcome = run_for(&voice, places, settings, on_loss);
    outcome.inspect_err(|error| voice.failed(error))
}

fn run_for(voice: &Voice, places: &Places, settings: Settings, on_loss: OnLoss) -> anyhow::Result<()> {
    logs::start(&settings);
    // Before anything is said or kept.
    let patterns = settings.patterns.clone().map(|file| Patterns::start(file, kept_patterns(&settings)));
    let patterns = patterns.transpose()?;
    data::prepare(&settings.data)?;
    let held = data::hold(&settings.data)?;
    patterns.as_ref().map_or(Ok(()), Patterns::hand_on)?;
    let (given, made) = master::master(places, &settings)?;
    if let Some(file) = made {
        let text = format!(
            "A master key was made: {}\nKeep a copy elsewhere: without it the store cannot be read.\n",
            file.display()
        );
        voice.note(&text);
    }
    let tls = serve::tls(&settings)?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no threads could be started")?;
    let ended = threads.block_on(async {
        let ring = Arc::new(master::key_ring(places, &settings, given).await?);
        if ring.is_rotating() {
            voice.note("A rotation of the keys was interrupted; `palisade secret rotate` finishes it.\n");
        }
        let boot = boot(&settings, ring, on_loss, known_agents(places.config_dir())?);
        let runtime = Runtime::boot(boot).await?;
        let listener = TcpListener::bind(settings.listen).await;
        let listener = listener.with_context(|| format!("`{}` cannot be listened on", settings.listen))?;
        let master = MasterFrom::find(places, &settings);
        let home = Home { voice, places, master, patterns };
        serve_all(runtime, settings, listener, tls, home).await
    });
    // What works on the disk or waits for git is not waited for without end.
    threads.shutdown_timeout(Duration::from_secs(10));
    drop(held);
    ended
}

/// Where launchers find the patterns that are in force.
fn kept_patterns(settings: &Settings) -> PathBuf {
    settings.data.join("patterns")
}

fn boot(settings: &Settings, ring: Arc<KeyRing>, on_loss: OnLoss, agents: agents::Catalog) -> Boot {
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
        launcher: launcher(),
        patterns: settings.patterns.is_some().then(|| kept_patterns(settings)),
        agents,
        agent_path: settings.agent_path.clone(),
        known_hosts: settings.known_hosts.clone(),
        bounds: settings.bounds.clone(),
    }
}

/// The agents that are shipped, and those that somebody put beside the configuration.
fn known_agents(config: &Path) -> anyhow::Result<agents::Catalog> {
    const MOST: u64 = 64 << 10;
    let mut all = agents::Catalog::shipped()?;
    let folder = config.join("agents");
    let root = match files::Root::open(&folder) {
        Ok(root) => root,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(all),
        Err(error) => return Err(error).with_context(|| format!("`{}` cannot be read", folder.display())),
    };
    let mut names: Vec<String> = root
        .list(Path::new(""), 1_000)
        .map_err(std::io::Error::from)?
        .into_iter()
        .filter_map(|entry| entry.name.to_str().map(str::to_owned))
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    for file in names {
        let text = root.read(Path::new(&file), MOST, files::Rule::Any).map_err(std::io::Error::from);
        let text = text.with_context(|| format!("`{}` cannot be read", folder.join(&file).display()))?;
        let text = String::from_utf8(text).with_context(|| format!("`{file}` is no text"))?;
        all.add(file.trim_end_matches(".toml"), &text)
            .with_context(|| folder.join(&file).display().to_string())?;
    }
    Ok(all)
}

/// `palisade` of the same package, beside this program.
fn launcher() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("palisade")
}

/// Whom the daemon serves here, and where its files are.
struct Home<'a> {
    voice: &'a Voice,
    places: &'a Places,
    master: MasterFrom,
    patterns: Option<Patterns>,
}

async fn serve_all(
    runtime: Arc<Runtime>,
    mut settings: Settings,
    listener: TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    home: Home<'_>,
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
        Some(address) => Some(open_metrics(home.voice, address).await?),
        None => None,
    };
    let (stop, stopping) = watch::channel(false);
    announce(&runtime, &settings, &home).await?;
    let kept = tokio::spawn(keep_metrics(metrics.clone(), stopping.clone()));
    let followed = home.patterns.map(|patterns| tokio::spawn(patterns.follow(stopping.clone())));
    let app = App::new(Arc::clone(&runtime), settings, metrics, stopping.clone(), home.master);
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
        if let Some(followed) = followed {
            drop(followed.await);
        }
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
async fn open_metrics(voice: &Voice, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("`metrics.listen`: `{address}` cannot be listened on"))?;
    voice.note(&format!("Metrics are open on http://{}/metrics\n", listener.local_addr()?));
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
async fn announce(runtime: &Runtime, settings: &Settings, home: &Home<'_>) -> anyhow::Result<()> {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let base = match settings.public_url.as_str() {
        "" => format!("{scheme}://{}", settings.listen),
        url => url.to_owned(),
    };
    if let Voice::People = home.voice {
        let mut text = format!("Palisade is listening on {base}\n");
        for setting in &settings.degraded {
            text.push_str(&format!("Weakened by a setting: {setting}\n"));
        }
        home.voice.note(&text);
    }
    let offer = runtime.auth().offer_bootstrap().await?;
    // The one text that must leave with its secret: it goes to the local terminal, once.
    let offer = offer.map(|secret| {
        let link = format!("{base}/setup?secret={}", secret.expose());
        (link, format!("palisade{} init {}", place_of(settings, home.places, &base), secret.expose()))
    });
    let text = match (home.voice, offer) {
        (Voice::People, None) => return Ok(()),
        (Voice::People, Some((link, init))) => format!(
            "There is no owner yet. Open this link once, within 60 minutes:\n  {link}\nor run:\n  {init}\n"
        ),
        (Voice::Program { spoke }, offer) => {
            spoke.store(true, Ordering::Relaxed);
            let (link, init) = offer.unzip();
            let weakened = settings.degraded.iter().map(|one| logs::near().scrub(one).into_owned());
            let weakened: Vec<String> = weakened.collect();
            let result = json!({ "url": base, "weakened": weakened, "setup": link, "init": init });
            format!("{}\n", json!({ "ok": true, "command": "up", "result": result }))
        }
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// What a client on this machine must be told to find this daemon and no other.
fn place_of(settings: &Settings, places: &Places, base: &str) -> String {
    let mut words = String::new();
    if *places != Places::find(None) {
        let file = std::path::absolute(&places.config).unwrap_or_else(|_| places.config.clone());
        words.push_str(&format!(" --config {}", quoted(&file.display().to_string())));
    }
    // A client reads the address in the file, but not what is stronger than the file, or a port that was free.
    let is_elsewhere = |key: &str| {
        let origin = settings.table.get(key).map(|(_, origin)| origin);
        matches!(origin, Some(Origin::Flag | Origin::Environment(_)))
    };
    let told = settings.table.get("server.listen").map(|(listen, _)| listen.as_str());
    let moved = told != Some(settings.listen.to_string().as_str()) && settings.public_url.is_empty();
    if moved || ["server.listen", "server.public_url", "server.tls_cert"].into_iter().any(is_elsewhere) {
        words.push_str(&format!(" --url {}", quoted(base)));
    }
    words
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
