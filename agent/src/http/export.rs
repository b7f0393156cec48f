//! The lines of a window of each interface. All lines of a window are from the same moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::api::{ApiError, ApiState, Parameters, ask, parameters, wrong};
use super::lists;
use crate::lines::line::LineFormat;
use crate::lines::window::Of;
use crate::process::host;
use crate::window::Window;

/// `/api/v1/export`
pub async fn export(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Result<Response, ApiError> {
    let given = parameters(given, &["interface", "window", "format", "top"])?;
    let (format, view) = (format(&given)?, state.shown.view());
    let top = match lists::top(&given)? {
        Some(top) => {
            lists::require_interface(&given, "top")?;
            top
        }
        None => view.top,
    };
    let look = move |window: &Window| {
        let lists = window.lists(top, view.anonymiser());
        (lists, window.is_complete())
    };
    let answers = ask(&state, &given, look).await?;
    let host = host::name();
    let mut text = format.head();
    for answered in answers {
        let (lists, complete) = answered.answer;
        let of = Of {
            host: Some(&host),
            interface: &answered.interface,
            complete,
            time: &answered.state.time,
        };
        text += &format.text(&of.lines(&answered.state, &[&lists.by_packets, &lists.by_bytes]));
    }
    let kind = match format {
        LineFormat::Jsonl => "application/jsonl; charset=utf-8",
        LineFormat::Csv => "text/csv; charset=utf-8; header=present",
    };
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

fn format(given: &BTreeMap<String, String>) -> Result<LineFormat, ApiError> {
    match given.get("format").map(String::as_str) {
        None | Some("jsonl") => Ok(LineFormat::Jsonl),
        Some("csv") => Ok(LineFormat::Csv),
        Some(other) => Err(wrong("format", other, "jsonl or csv")),
    }
}
