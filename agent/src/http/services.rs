//! Queries about services: their traffic, and the pairs that have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;

use super::answers::{InterfaceService, ServiceAnswer};
use super::api::{Answered, ApiError, ApiState, Parameters, ask, fault, parameters, wrong};
use super::lists;
use crate::traffic::service::filter::ServiceFilter;
use crate::window::Window;

/// `/api/v1/service`
pub async fn service(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<ServiceAnswer> {
    let allowed = ["port", "service", "interface", "window", "by", "top"];
    let given = parameters(given, &allowed)?;
    let filter = filter(&given)?.ok_or_else(|| {
        let message = "service is missing: give service=tcp/443 or port=443";
        ApiError(StatusCode::BAD_REQUEST, message.into())
    })?;
    let (by, view) = (lists::by(&given)?, state.shown.view());
    let top = match lists::top(&given)? {
        Some(top) => {
            lists::require_interface(&given, "top")?;
            top
        }
        None => view.top,
    };
    let service = filter.to_string();
    let about = move |window: &Window| window.service(&filter, top, by, view.anonymiser());
    let answers = ask(&state, &given, about).await?;
    let interfaces = answers.into_iter().map(|answered| {
        Ok(InterfaceService {
            interface: answered.interface,
            window: answered.window,
            state: answered.state,
            service: answered.answer.map_err(fault)?,
        })
    });
    let interfaces = interfaces.collect::<Result<_, _>>()?;
    Ok(Json(ServiceAnswer {
        service,
        interfaces,
    }))
}

/// Returns the services that the request names; `None` for all.
pub fn filter(given: &BTreeMap<String, String>) -> Result<Option<ServiceFilter>, ApiError> {
    let refuse = |message: String| Err(ApiError(StatusCode::BAD_REQUEST, message));
    match (given.get("port"), given.get("service")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => refuse("port and service are both given: give one of them".into()),
        (Some(port), None) => match port.parse() {
            Ok(number) => Ok(Some(ServiceFilter::port(number))),
            Err(_) => Err(wrong("port", port, "0 to 65535")),
        },
        (None, Some(service)) => match service.parse() {
            Ok(filter) => Ok(Some(filter)),
            Err(why) => refuse(format!("service={service}: {why}")),
        },
    }
}
