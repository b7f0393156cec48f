//! What sketches look like inside: how full they are, and how they do on pairs that
//! are counted exactly beside them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::Serialize;

use super::api::{Answered, ApiState, Parameters, ask, parameters};
use super::lists::of_one;
use crate::sketch::answer::{About, WindowName};
use crate::sketch::inside::{SketchStates, states};

/// Sketches of each interface that is meant.
#[derive(Debug, Serialize)]
pub struct SketchAnswer {
    interfaces: Vec<InterfaceSketches>,
}

#[derive(Debug, Serialize)]
struct InterfaceSketches {
    interface: String,
    window: WindowName,
    sketches: SketchStates,
}

/// `/api/v1/sketch`
pub async fn sketch(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<SketchAnswer> {
    let given = parameters(given, &["interface", "window"])?;
    of_one(&given, "sketch")?;
    let answers = ask(&state, &given, About::Inside).await?;
    let interfaces = answers.into_iter().map(|answer| InterfaceSketches {
        interface: answer.interface,
        window: answer.window,
        sketches: states(&answer.inside),
    });
    Ok(Json(SketchAnswer {
        interfaces: interfaces.collect(),
    }))
}
