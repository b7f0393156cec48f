//! The live view of a running agent: `crane-agent top`.
//!
//! [`feed`] asks the agent, [`state`] is what is shown, [`keys`] change it, [`draw`]
//! makes a picture of it. Only this file knows a terminal.

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
use feed::{Chosen, Feed, Wanted};
use keys::Then;
use state::State;

/// How soon news are drawn, and a signal is heard.
const TICK: Duration = Duration::from_millis(50);

/// How to look at an agent.
pub struct Options {
    /// Which.
    pub agent: Agent,
    /// Which of its interfaces; none for the busiest.
    pub interface: Option<String>,
    /// Whether to begin with all of them in one view.
    pub all: bool,
    /// Which window at first.
    pub window: WindowName,
    /// In which order at first.
    pub by: By,
    /// How numbers are shown.
    pub units: Units,
    /// How often to ask.
    pub interval: Duration,
    /// Whether there may be colours.
    pub colours: bool,
}

/// Shows an agent until the user has seen enough.
pub fn run(options: Options) -> anyhow::Result<()> {
    let wanted = Wanted {
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
    let mut state = State::new(&options.agent.at, &wanted, options.units);
    let wanted = state.wanted();
    // An agent that is not there, or wants a password, is no reason to clear a screen.
    let news = feed::ask(&options.agent, &wanted)?;
    if let Some(name) = &options.interface {
        let known = news.interfaces.interfaces.iter();
        let known: Vec<&str> = known.map(|one| one.interface.as_str()).collect();
        anyhow::ensure!(
            known.contains(&name.as_str()),
            "the agent has no interface {name:?}, only {}",
            known.join(", ")
        );
    }
    state.hear(Ok(news));
    let colours = options.colours;
    stop::on_signal()?;
    end_with_terminal()?;
    let feed = Feed::start(options.agent, state.wanted(), options.interval)?;
    // Also puts the terminal in order if there is a panic.
    let mut terminal = ratatui::try_init().context("the terminal cannot be used; try --once")?;
    let shown = show(&mut terminal, &mut state, Look { colours }, &feed);
    let restored = ratatui::try_restore().context("the terminal cannot be restored; try `reset`");
    shown.and(restored)
}

/// Ends the program when its terminal is gone: crossterm would go on reading it, and
/// never come back.
fn end_with_terminal() -> anyhow::Result<()> {
    let terminal: OwnedFd = match std::io::stdin().is_terminal() {
        true => std::io::stdin().as_fd().try_clone_to_owned()?,
        false => File::open("/dev/tty")?.into(),
    };
    thread::Builder::new()
        .name("terminal".into())
        .spawn(move || {
            // Whatever is asked for, a hang-up is told.
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
    let mut asked = state.wanted();
    let mut mouse = Mouse { ours: false };
    while !stop::is_requested() {
        panics::provoke("top", state.interface().0);
        terminal.draw(|frame| draw::draw(state, look, frame))?;
        // Draws again after a key, news, or a second that the agent is silent.
        let silent = state.silent();
        loop {
            if event::poll(TICK)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        match keys::press(state, key) {
                            Then::Go => {}
                            Then::Redraw => terminal.clear()?,
                            Then::Quit => return Ok(()),
                        }
                    }
                    Event::Mouse(event) => keys::point(state, event),
                    _ => {}
                }
                break;
            }
            if let Some(news) = feed.news()? {
                state.hear(news);
                break;
            }
            if stop::is_requested() || state.trouble.is_some() && state.silent() != silent {
                break;
            }
        }
        mouse.take(state.mouse)?;
        if state.wanted() != asked {
            asked = state.wanted();
            feed.want(asked.clone());
        }
    }
    Ok(())
}

/// Whether the terminal tells of the mouse. It is given back however the view ends.
struct Mouse {
    ours: bool,
}

impl Mouse {
    fn take(&mut self, ours: bool) -> std::io::Result<()> {
        if self.ours == ours {
            return Ok(());
        }
        self.ours = ours;
        match ours {
            true => execute!(stdout(), EnableMouseCapture),
            false => execute!(stdout(), DisableMouseCapture),
        }
    }
}

impl Drop for Mouse {
    fn drop(&mut self) {
        // A terminal that is gone has no mouse.
        let _ = self.take(false);
    }
}
