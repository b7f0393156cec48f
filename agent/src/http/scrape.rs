//! A scrape: collects the state of all interfaces and renders it as metrics.

use std::sync::Arc;
use std::time::Duration;

use super::api::ApiState;
use crate::export::metrics::Scraped;
use crate::export::stable_lists::StableLists;
use crate::window::Window;

/// How long a scrape waits for windows that are being filled. After that it continues without them,
/// so that metrics are available while the worker is busy.
const ANSWER_TIME: Duration = Duration::from_secs(2);

pub async fn scrape(state: &Arc<ApiState>) -> String {
    let view = state.shown.view();
    let figures = tokio::time::timeout(ANSWER_TIME, state.reader.figures()).await;
    if let Ok(Ok(figures)) = figures {
        state.exporter.remember(figures);
    }
    let snapshot = state.reader.snapshot();
    // Until a window is complete, the current one is exported.
    let mut first = Vec::new();
    if snapshot.interfaces.iter().any(|one| one.last.is_none()) {
        let view = Arc::clone(&view);
        let look = move |window: &Window| StableLists::of(window, &view);
        let asked = state.reader.ask(None, None, look);
        if let Ok(Ok(answers)) = tokio::time::timeout(ANSWER_TIME, asked).await {
            first = answers;
        }
    }
    let state = Arc::clone(state);
    // Making the lists of a new window may take a while.
    let text = tokio::task::spawn_blocking(move || {
        let scraped = snapshot.interfaces.iter().map(|one| {
            let found = first.iter().position(|answer| answer.interface == one.name);
            let (window, exported) = match (&one.last, found) {
                (Some(last), _) => {
                    let exported = state.exporter.exported(&one.name, last, &view);
                    (last.state(), exported)
                }
                (None, Some(at)) => {
                    let answer = first.swap_remove(at);
                    (answer.state, Arc::new(answer.answer))
                }
                (None, None) => Default::default(),
            };
            Scraped {
                figures: state.exporter.figures(&one.name),
                view: Arc::clone(one),
                window,
                exported,
            }
        });
        state.exporter.render(&scraped.collect::<Vec<_>>())
    });
    text.await.unwrap_or_default()
}
