//! The inner state of sketches: how full they are, and how accurate they are for pairs that are
//! also counted exactly.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::Serialize;

use super::api::{Answered, ApiState, Parameters, ask, fault, parameters};
use super::lists::require_interface;
use crate::sketches::details::{SketchStates, states};
use crate::traffic::question::WindowName;
use crate::window::Window;

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
    require_interface(&given, "sketch")?;
    let details = |window: &Window| window.sketches.details();
    let answers = ask(&state, &given, details).await?;
    let interfaces = answers.into_iter().map(|answered| {
        Ok(InterfaceSketches {
            interface: answered.interface,
            window: answered.window,
            sketches: states(&answered.answer.map_err(fault)?),
        })
    });
    Ok(Json(SketchAnswer {
        interfaces: interfaces.collect::<Result<_, _>>()?,
    }))
}
