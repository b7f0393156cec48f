//! Reads and checks the configuration of a command without opening anything.

use std::path::PathBuf;

use crate::cli::{Run, SketchArgs};
use crate::config::{self, Config, ConfigError, KeyLocations, Loaded, Only, Profile};
use crate::filter;
use crate::http;
use crate::sketches::weights;

/// Combines defaults, file, environment and flags of the sketch. After further flags, [`check`] has
/// to be called.
pub fn configure(file: Option<&PathBuf>, flags: &SketchArgs) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded::from(file)?;
    if !loaded.unknown_variables.is_empty() {
        tracing::warn!(
            "unknown variables are ignored: {}",
            loaded.unknown_variables.join(", ")
        );
    }
    let device = &mut loaded.config.sketch.device;
    *device = flags.device.unwrap_or(*device);
    Ok(loaded)
}

/// The configuration of a live capture with all flags, checked. Used at the start and by a reload.
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
    check(&config, &loaded.locations)?;
    Ok(config)
}

/// Logs the keys that are set but have no effect on a replay. Some have an effect if the replay
/// serves HTTP, others if it is also paced.
pub fn warn_of_unused_keys(loaded: &Loaded, serves: bool, lingers: bool) {
    let useless = config::keys().filter(|key| match key.only {
        None => false,
        Some(Only::Live) => true,
        Some(Only::Serving) => !serves,
        Some(Only::Lingering) => !lingers,
    });
    let given = useless
        .map(|key| key.path())
        .filter(|key| loaded.keys.iter().any(|set| set == key));
    let useless = given.map(|key| match key {
        "window.length" => "window.length (use --window)",
        key => key,
    });
    let useless: Vec<&str> = useless.collect();
    if !useless.is_empty() {
        tracing::warn!("not for replay, and ignored: {}", useless.join(", "));
    }
}

/// Checks all values as far as that is possible without opening the device. Errors name where a key
/// is set.
pub fn check(config: &Config, locations: &KeyLocations) -> anyhow::Result<()> {
    if let Some(expression) = &config.capture.filter {
        let place = format!("{} = {expression:?}", locations.of("capture.filter"));
        filter::check(expression).map_err(|refusal| refusal.into_error(place))?;
    }
    let device = config.sketch.device;
    let fault = |error| {
        let place = format!("{} = \"{device}\"", locations.of("sketch.device"));
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
                locations.of("sketch.weights"),
                format_args!("{error:#} (for sketch.profile = \"{profile}\")"),
            )
        };
        loaded.map_err(fault)?;
    }
    if let Some(path) = config.export.web_config.as_deref() {
        http::WebPolicy::read(path)?;
    }
    Ok(())
}
