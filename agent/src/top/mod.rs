//! The live view of a running agent: `crane-agent top`.
//!
//! [`feed`] asks the agent, [`state`] is what is shown, [`keys`] change it, [`draw`]
//! makes a picture of it. Only this file knows a terminal.

mod draw;
mod feed;
mod keys;
mod layout;
mod state;
mod table;
mod tabs;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use std::{process, thread};

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};

use crate::http::client::Agent;
use crate::panics;
use crate::sketch::answer::{By, WindowName};
use crate::stop;
use crate::units::Units;
use draw::Look;
use feed::{Feed, Wanted};
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
        interface: options.interface.clone(),
        window: options.window,
        by: options.by,
        node: None,
    };
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
    let mut state = State::new(&options.agent.at, &wanted, options.units);
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
    while !stop::asked() {
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
                    _ => {}
                }
                break;
            }
            if let Some(news) = feed.news()? {
                state.hear(news);
                break;
            }
            if stop::asked() || state.trouble.is_some() && state.silent() != silent {
                break;
            }
        }
        if state.wanted() != asked {
            asked = state.wanted();
            feed.want(asked.clone());
        }
    }
    Ok(())
}
