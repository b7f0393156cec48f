//! What can go wrong in the model.

/// Result with the model's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Everything the model refuses, with the reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tensor operation failed.
    #[error("tensor operation failed: {}", first_line(.0))]
    Tensor(#[from] candle_core::Error),
    /// A setting outside its range.
    #[error("{name} = {value} is not possible: {allowed}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// What would be accepted.
        allowed: String,
    },
    /// A device that is not there.
    #[error("device {name:?} cannot be used: {why}")]
    Device {
        /// The device as asked for.
        name: String,
        /// The reason.
        why: String,
    },
    /// A saved state that does not fit this sketch.
    #[error("saved state does not fit: {0}")]
    State(String),
    /// Weights that are not ours, damaged, or of another shape.
    #[error("weights cannot be used: {0}")]
    Weights(String),
}

/// The error without the backtrace that candle may add to it.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
