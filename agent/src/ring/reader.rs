//! Queries windows from other threads. The calling thread reads a finished window itself; only
//! queries about a current window go to the worker.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::worker::{QueryError, WorkerHandle};
use crate::traffic::question::WindowName;
use crate::window::Window;
use crate::window::snapshot::{InterfaceView, Snapshot};
use crate::window::state::{Figures, WindowState};
use crate::window::windows::Windows;

/// Answers queries about the windows of all interfaces.
#[derive(Clone)]
pub struct Reader {
    snapshot: Arc<ArcSwap<Snapshot>>,
    worker: WorkerHandle,
}

/// The answer of one interface.
pub struct Answered<T> {
    pub interface: String,
    pub window: WindowName,
    pub state: WindowState,
    pub answer: T,
}

impl Reader {
    pub fn new(snapshot: Arc<ArcSwap<Snapshot>>, worker: WorkerHandle) -> Self {
        Self { snapshot, worker }
    }

    /// The published state of all interfaces.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Queries a window of this interface, or one of each interface for `None`. Without a window
    /// name this is the last complete window, or the current one until there is one.
    pub async fn ask<T: Send + 'static>(
        &self,
        interface: Option<&str>,
        window: Option<WindowName>,
        question: impl Fn(&Window) -> T + Send + Sync + 'static,
    ) -> Result<Vec<Answered<T>>, QueryError> {
        let mut found: Vec<(usize, Answered<T>)> = Vec::new();
        let (mut over, mut current) = (Vec::new(), Vec::new());
        // Released before waiting, so that finished windows can be freed.
        for (at, view) in self.snapshot().interfaces.iter().enumerate() {
            if interface.is_some_and(|name| name != view.name) {
                continue;
            }
            let name = view.name.clone();
            match WindowName::resolve(window, view.last.is_some()) {
                None => {}
                Some(which) => match self::over(view, which) {
                    Some(window) => over.push((at, name, which, Arc::clone(window))),
                    None => current.push((at, name)),
                },
            }
        }
        let question = Arc::new(question);
        if !over.is_empty() {
            let question = Arc::clone(&question);
            let asked = tokio::task::spawn_blocking(move || {
                let answer = |(at, interface, which, window): (_, _, _, Arc<Window>)| {
                    let answered = Answered {
                        interface,
                        window: which,
                        state: window.state(),
                        answer: question(&window),
                    };
                    (at, answered)
                };
                over.into_iter().map(answer).collect::<Vec<_>>()
            });
            found.extend(asked.await.map_err(|_| QueryError::WorkerGone)?);
        }
        if !current.is_empty() {
            let (places, names): (Vec<usize>, Vec<String>) = current.into_iter().unzip();
            let query = move |windows: &Windows| {
                let window = windows.current();
                let name = windows.interface().to_owned();
                (name, window.state(), question(window))
            };
            let looked = self.worker.query(names.clone(), query)?;
            let looked = looked.await.map_err(|_| QueryError::WorkerGone)?;
            for (interface, state, answer) in looked {
                let place = names.iter().position(|name| *name == interface);
                let answered = Answered {
                    interface,
                    window: WindowName::Current,
                    state,
                    answer,
                };
                found.extend(place.map(|place| (places[place], answered)));
            }
        }
        found.sort_by_key(|(at, _)| *at);
        Ok(found.into_iter().map(|(_, answered)| answered).collect())
    }

    /// Has the worker run a query on the windows of an interface. `None` if the
    /// interface has ended or does not exist.
    pub async fn query<T: Send + 'static>(
        &self,
        interface: &str,
        query: impl Fn(&Windows) -> T + Send + 'static,
    ) -> Result<Option<T>, QueryError> {
        let answers = self.worker.query(vec![interface.to_owned()], query)?;
        let mut answers = answers.await.map_err(|_| QueryError::WorkerGone)?;
        Ok(answers.pop())
    }

    /// All interfaces with their figures.
    pub async fn figures(&self) -> Result<Vec<(Arc<InterfaceView>, Arc<Figures>)>, QueryError> {
        let names: Vec<String> = {
            let snapshot = self.snapshot();
            let live = snapshot.interfaces.iter().filter(|one| one.ended.is_none());
            live.map(|view| view.name.clone()).collect()
        };
        let mut looked = Vec::new();
        if !names.is_empty() {
            let query = |windows: &Windows| {
                let figures = windows.figures();
                (windows.interface().to_owned(), figures.map(Arc::new))
            };
            let seen = self.worker.query(names, query)?;
            looked = seen.await.map_err(|_| QueryError::WorkerGone)?;
        }
        // Loaded again, because windows must not be kept from being freed while waiting.
        let snapshot = self.snapshot();
        let figures = snapshot.interfaces.iter().filter_map(|view| {
            let figures = match &view.ended {
                Some(ended) => Arc::clone(&ended.figures),
                None => {
                    let mut looked = looked.iter();
                    let (_, figures) = looked.find(|(name, _)| *name == view.name)?;
                    Arc::clone(figures.as_ref().ok()?)
                }
            };
            Some((Arc::clone(view), figures))
        });
        Ok(figures.collect())
    }
}

/// Returns a window that is finished. `None` if it is being filled.
fn over(view: &InterfaceView, which: WindowName) -> Option<&Arc<Window>> {
    match which {
        WindowName::Last => view.last.as_ref(),
        WindowName::Current => view.ended.as_ref().map(|ended| &ended.current),
    }
}
