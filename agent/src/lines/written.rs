//! Finds the windows that a file already contains. After a crash, the last saved window may be
//! among them, and must not be written again.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use super::file::numbered;

/// Only this many bytes at the end of a file are read, which is more than the lines of one window
/// of all interfaces.
const MOST: u64 = 64 << 20;

/// The line of a window.
#[derive(Deserialize)]
struct WindowLine {
    interface: String,
    start: f64,
}

/// Interfaces and the start times of their windows, in milliseconds since 1970.
pub fn windows(path: &Path) -> HashSet<(String, u64)> {
    let files = [numbered(path, 1), path.to_owned()];
    let lines = files.iter().filter_map(|file| lines(file).ok()).flatten();
    let windows = lines.filter(|line| line.starts_with("{\"list\":\"window\","));
    let parsed = windows.filter_map(|line| serde_json::from_str::<WindowLine>(&line).ok());
    parsed
        .map(|line| (line.interface, (line.start * 1e3).round() as u64))
        .collect()
}

/// Converts a start time in nanoseconds to milliseconds, rounded as in [`windows`].
pub fn milliseconds(start: u64) -> u64 {
    (start as f64 / 1e6).round() as u64
}

fn lines(path: &Path) -> std::io::Result<impl Iterator<Item = String> + use<>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
    // Lines that are not UTF-8 were not written by the agent.
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    Ok(lines.filter_map(|line| String::from_utf8(line).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::line::LineFormat;
    use crate::lines::window::Of;
    use crate::window::state::WindowState;

    #[test]
    fn windows_are_found_in_both_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let begins = [1_700_000_000_123_456_789_u64, 1_700_000_060_000_000_000];
        for (start, file) in begins.into_iter().zip([numbered(&path, 1), path.clone()]) {
            let mut state = WindowState::default();
            state.time.start = Some(start as f64 / 1e9);
            let of = Of {
                host: Some("here"),
                interface: "eth0",
                complete: true,
                time: &state.time,
            };
            let text = LineFormat::Jsonl.text(&of.lines(&state, &[]));
            std::fs::write(file, format!("{{\n{text}half")).unwrap();
        }
        let expected = begins.map(|start| ("eth0".to_owned(), milliseconds(start)));
        assert_eq!(windows(&path), expected.into_iter().collect());
        assert!(windows(&folder.path().join("none")).is_empty());
    }
}
