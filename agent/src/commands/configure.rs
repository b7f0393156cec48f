//! The configuration of a command, checked as far as that opens nothing.

use std::path::PathBuf;

use crate::capture::filter;
use crate::cli::{Run, SketchArgs};
use crate::config::{Config, ConfigError, Loaded, Places, Profile};
use crate::http;
use crate::sketch::weights;

/// Keys about interfaces, which files have none of.
const OF_INTERFACES: [&str; 7] = [
    "capture.interfaces",
    "capture.exclude",
    "capture.snaplen",
    "capture.promiscuous",
    "window.length",
    "state.directory",
    "state.interval",
];
/// Keys about what is served over HTTP.
const OF_SERVING: [&str; 6] = [
    "export.listen",
    "export.socket",
    "export.web_config",
    "export.hosts",
    "export.anonymise",
    "export.watch",
];

/// Defaults, then the file, the environment, the flags of the sketch. Flags
/// that are put over it need a [`check`] after that.
pub fn configure(file: Option<&PathBuf>, flags: &SketchArgs) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded::from(file)?;
    if !loaded.strangers.is_empty() {
        tracing::warn!(
            "ignored, as they are none of crane-agent's variables: {}",
            loaded.strangers.join(", ")
        );
    }
    let device = &mut loaded.config.sketch.device;
    *device = flags.device.unwrap_or(*device);
    Ok(loaded)
}

/// The configuration of a live capture, at its start and whenever it is read again:
/// what the flags say is put over it, and it is checked.
pub fn configure_run(args: &Run) -> anyhow::Result<Config> {
    let loaded = configure(args.config.as_ref(), &args.sketch)?;
    let mut config = loaded.config;
    if !args.listen.is_empty() {
        config.export.listen.clone_from(&args.listen);
    }
    if args.state.is_some() {
        config.state.directory.clone_from(&args.state);
    }
    config.window.length = args.window.unwrap_or(config.window.length);
    if !args.interfaces.is_empty() {
        config.capture.interfaces.clone_from(&args.interfaces);
    }
    if !args.exclude.is_empty() {
        config.capture.exclude.clone_from(&args.exclude);
    }
    check(&config, &loaded.places)?;
    Ok(config)
}

/// Names the keys that are set and mean nothing to a replay, which may serve
/// what it knows or not, and let packets wait for a full batch only so long.
pub fn name_useless(loaded: &Loaded, serves: bool, lingers: bool) {
    let is_useless = |key: &&str| match *key {
        "sketch.linger_ms" => !lingers,
        key => OF_INTERFACES.contains(&key) || !serves && OF_SERVING.contains(&key),
    };
    let useless = loaded.keys.iter().map(String::as_str).filter(is_useless);
    let useless = useless.map(|key| match key {
        "window.length" => "window.length (use --window)",
        key => key,
    });
    let useless: Vec<&str> = useless.collect();
    if !useless.is_empty() {
        tracing::warn!("not for replay, and ignored: {}", useless.join(", "));
    }
}

/// Everything that can be wrong with the values of a configuration, apart from
/// what only an open device tells; errors name where the key is written.
pub fn check(config: &Config, places: &Places) -> anyhow::Result<()> {
    if let Some(expression) = &config.capture.filter {
        let place = format!("{} = {expression:?}", places.of("capture.filter"));
        filter::check(expression).map_err(|refusal| refusal.into_error(place))?;
    }
    let device = config.sketch.device;
    let fault = |error| {
        let place = format!("{} = \"{device}\"", places.of("sketch.device"));
        ConfigError::new(place, error)
    };
    device.check().map_err(fault)?;
    if let Some(path) = config.sketch.weights.as_deref() {
        let loaded = match config.sketch.profile {
            Profile::Packed => weights::load_packed(Some(path)).map(drop),
            Profile::Paper => weights::load(Some(path)).map(drop),
        };
        let fault = |error| {
            let profile = config.sketch.profile.name();
            ConfigError::new(
                places.of("sketch.weights"),
                format_args!("{error:#} (for sketch.profile = \"{profile}\")"),
            )
        };
        loaded.map_err(fault)?;
    }
    if let Some(path) = config.export.web_config.as_deref() {
        http::Rules::read(path)?;
    }
    Ok(())
}
