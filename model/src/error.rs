//! Errors of this crate.

/// Result with the model's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tensor operation failed.
    #[error("tensor operation failed: {}", first_line(.0))]
    Tensor(#[from] candle_core::Error),
    /// A setting is outside its range.
    #[error("{name} = {value}: must be {allowed}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are allowed; completes "must be".
        allowed: String,
    },
    /// A device cannot be used.
    #[error("device {name:?} cannot be used: {why}")]
    Device {
        /// The device as it was named by the caller.
        name: String,
        /// The reason.
        why: String,
    },
    /// A saved state does not fit this sketch.
    #[error("saved state does not fit: {0}")]
    State(String),
    /// A weight file is damaged, has another format or another shape.
    #[error("weights cannot be used: {0}")]
    Weights(String),
}

/// The text of the error without the backtrace that candle may append.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
