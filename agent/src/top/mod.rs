//! The live view of a running agent: `crane-agent top`.
//!
//! [`feed`] asks the agent, [`state`] is the state of the view, [`keys`] changes it, [`draw`]
//! draws it. Only this file uses the terminal.

mod draw;
mod feed;
mod found;
mod header;
mod keys;
mod layout;
mod node;
mod opened;
mod service;
mod state;
mod tabs;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{IsTerminal, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use std::{process, thread};

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind,
};
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, poll};

use crate::http::client::Agent;
use crate::process::panics;
use crate::process::stop;
use crate::text::units::Units;
use crate::traffic::question::{By, WindowName};
use crate::window::rates::Order;
use draw::Look;
use feed::{Chosen, Feed, Request};
use keys::Then;
use state::State;

/// How often to check for answers and signals.
const TICK: Duration = Duration::from_millis(50);

/// Options of the view.
pub struct Options {
    pub agent: Agent,
    /// The interface to show. `None` for the busiest.
    pub interface: Option<String>,
    /// Whether to begin with all interfaces in one view.
    pub all: bool,
    /// The window to begin with.
    pub window: WindowName,
    /// The order to begin with.
    pub by: By,
    pub units: Units,
    /// Time between two requests.
    pub interval: Duration,
    /// Whether colours may be used.
    pub colours: bool,
}

/// Shows an agent until the user quits.
pub fn run(options: Options) -> anyhow::Result<()> {
    let request = Request {
        interfaces: match &options.interface {
            Some(name) => Chosen::One(name.clone()),
            None if options.all => Chosen::All,
            None => Chosen::Busiest,
        },
        window: options.window,
        order: Order::Window(options.by),
        rows: 0,
        opened: None,
        missing: None,
    };
    let mut state = State::new(&options.agent.at, &request, options.units);
    let request = state.request();
    // If the agent does not answer, or requires a password, the screen is not cleared.
    let update = feed::ask(&options.agent, &request)?;
    if let Some(name) = &options.interface {
        let known = update.interfaces.interfaces.iter();
        let known: Vec<&str> = known.map(|one| one.interface.as_str()).collect();
        anyhow::ensure!(
            known.contains(&name.as_str()),
            "the agent has no interface {name:?}, only {}",
            known.join(", ")
        );
    }
    state.receive(Ok(update));
    let colours = options.colours;
    stop::on_signal()?;
    end_with_terminal()?;
    let feed = Feed::start(options.agent, state.request(), options.interval)?;
    // This also restores the terminal after a panic.
    let mut terminal = ratatui::try_init().context("the terminal cannot be used; try --once")?;
    let shown = show(&mut terminal, &mut state, Look { colours }, &feed);
    let restored = ratatui::try_restore().context("the terminal cannot be restored; try `reset`");
    shown.and(restored)
}

/// Ends the program when its terminal is closed. Crossterm would continue to read it, and never
/// return.
fn end_with_terminal() -> anyhow::Result<()> {
    let terminal: OwnedFd = match std::io::stdin().is_terminal() {
        true => std::io::stdin().as_fd().try_clone_to_owned()?,
        false => File::open("/dev/tty")?.into(),
    };
    thread::Builder::new()
        .name("terminal".into())
        .spawn(move || {
            // A hang-up is reported even if no events are requested.
            let mut events = [PollFd::new(&terminal, PollFlags::empty())];
            while poll(&mut events, None).is_err() {}
            process::exit(1);
        })?;
    Ok(())
}

fn show(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    look: Look,
    feed: &Feed,
) -> anyhow::Result<()> {
    let mut asked = state.request();
    let mut mouse = Mouse { captured: false };
    while !stop::is_requested() {
        panics::provoke("top", state.interface().0);
        terminal.draw(|frame| draw::draw(state, look, frame))?;
        // Draws again after an event or an answer, and every second while the agent does not
        // answer.
        let silent = state.seconds_without_answer();
        loop {
            if event::poll(TICK)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        match keys::press(state, key) {
                            Then::Draw => {}
                            Then::Redraw => terminal.clear()?,
                            Then::Quit => return Ok(()),
                        }
                    }
                    Event::Mouse(event) => keys::point(state, event),
                    _ => {}
                }
                break;
            }
            if let Some(update) = feed.update()? {
                state.receive(update);
                break;
            }
            if stop::is_requested()
                || state.failure.is_some() && state.seconds_without_answer() != silent
            {
                break;
            }
        }
        mouse.capture(state.mouse)?;
        if state.request() != asked {
            asked = state.request();
            feed.request(asked.clone());
        }
    }
    Ok(())
}

/// Whether the terminal reports the mouse. Reporting is switched off when this is dropped.
struct Mouse {
    captured: bool,
}

impl Mouse {
    fn capture(&mut self, captured: bool) -> std::io::Result<()> {
        if self.captured == captured {
            return Ok(());
        }
        self.captured = captured;
        match captured {
            true => execute!(stdout(), EnableMouseCapture),
            false => execute!(stdout(), DisableMouseCapture),
        }
    }
}

impl Drop for Mouse {
    fn drop(&mut self) {
        // This fails only if the terminal is closed.
        let _ = self.capture(false);
    }
}
