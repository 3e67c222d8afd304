//! Commands that work on the data directory while no daemon has it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use api::Places;
use model::SystemClock;
use runtime::Source;
use vault::Purpose;

use crate::data;
use crate::logs::tell;
use crate::master::{self, MasterFrom};
use crate::settings::{KEYS, Settings};

/// What is in force and where it comes from.
pub(crate) fn show_config(settings: &Settings, json: bool) -> anyhow::Result<()> {
    let mut text = String::new();
    let mut object = serde_json::Map::new();
    for key in KEYS {
        let Some((value, origin)) = settings.table.get(key.name) else { continue };
        let shown = if key.secret && !value.is_empty() { "***" } else { value };
        text.push_str(&format!("{:28} = {shown:24} # {origin}; {}\n", key.name, key.about));
        let row = serde_json::json!({ "value": shown, "origin": origin.to_string(), "default": key.default, "about": key.about });
        object.insert(key.name.to_owned(), row);
    }
    if json {
        text = serde_json::to_string_pretty(&object)? + "\n";
    }
    tell(&mut std::io::stdout().lock(), &text);
    Ok(())
}

/// Makes a new installation from a backup.
pub(crate) fn restore(places: &Places, settings: &Settings, file: &Path) -> anyhow::Result<()> {
    data::prepare(&settings.data)?;
    let _held = data::hold(&settings.data)?;
    let from = MasterFrom::find(places, settings);
    if let Some(key_file) = from.file().filter(|file| !file.exists()) {
        let what = match &from {
            MasterFrom::Passphrase(_) => "passphrase",
            MasterFrom::Environment
            | MasterFrom::File(_)
            | MasterFrom::Credential(_)
            | MasterFrom::Program(_) => "master key",
        };
        bail!(
            "a backup needs the {what} it was made under; put it at `{}` (mode 0600) first",
            key_file.display()
        );
    }
    let (master, _) = master::master(places, settings)?;
    let input = files::open(file, files::Rule::Any)
        .with_context(|| format!("`{}` cannot be read", file.display()))?;
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let restored = runtime::restore(&settings.data, &settings.source, master, Arc::new(SystemClock), input);
    let rows = threads.block_on(restored)?;
    tell(&mut std::io::stdout().lock(), &format!("restored {rows} rows and the ledger\n"));
    Ok(())
}

/// Encrypts a plain-text store in place.
pub(crate) fn encrypt(places: &Places, settings: &Settings) -> anyhow::Result<()> {
    let Source::Embedded = settings.source else {
        bail!("only the embedded database is encrypted by Palisade")
    };
    data::prepare(&settings.data)?;
    let _held = data::hold(&settings.data)?;
    runtime::unfinished(&settings.data)?;
    let file = settings.data.join("store").join("palisade.db");
    let (master, _) = master::master(places, settings)?;
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ring = threads.block_on(master::key_ring(places, settings, master))?;
    threads.block_on(runtime::encrypt_plain(&file, ring.subkey(Purpose::Store).expose()))?;
    tell(&mut std::io::stdout().lock(), "the store is encrypted\n");
    Ok(())
}

/// Brings an older store to the present schema.
pub(crate) fn migrate(places: &Places, settings: &Settings) -> anyhow::Result<()> {
    data::prepare(&settings.data)?;
    let _held = data::hold(&settings.data)?;
    runtime::unfinished(&settings.data)?;
    let (master, _) = master::master(places, settings)?;
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ring = match settings.source {
        Source::Embedded => Some(threads.block_on(master::key_ring(places, settings, master))?),
        Source::Postgres(_) => None,
    };
    let upgraded = runtime::upgrade(&settings.data, &settings.source, ring.as_ref(), &SystemClock);
    let applied = threads.block_on(upgraded)?;
    tell(&mut std::io::stdout().lock(), &format!("{applied} migrations applied\n"));
    Ok(())
}
