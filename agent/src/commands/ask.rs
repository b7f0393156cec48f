//! `crane-agent query` and `crane-agent top`: clients of a running agent.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

use crate::cli::{Ask, Query, ReportFormat, Top};
use crate::columns::Columns;
use crate::endpoint::{Between, Endpoint};
use crate::http::answers::{
    self, FlowAnswer, HeavyHitters, HeavyNode, HeavyPair, HeavyService, NodeAnswer, WindowTime,
};
use crate::http::client::{self, Agent};
use crate::names::show;
use crate::plain;
use crate::report;
use crate::sketch::answer::{By, WindowName};
use crate::sketch::estimate::Estimate;
use crate::terminal;
use crate::top;
use crate::units::{self, Units};

/// Where the password is that goes with --user, if in no file.
const PASSWORD: &str = "CRANE_PASSWORD";

/// Asks about a pair, networks or a node.
pub fn query(args: &Query, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let mut add = |name, value: Option<String>| {
        parameters.extend(value.map(|value| (name, value)));
    };
    add("src", args.src.as_ref().map(Endpoint::to_string));
    add("dst", args.dst.as_ref().map(Endpoint::to_string));
    add("both", args.both.then(|| true.to_string()));
    add("ip", args.node.map(|ip| ip.to_string()));
    let agent = &agent(&args.ask)?;
    if args.node.is_some() {
        let answer: NodeAnswer = client::get(agent, answers::NODE, &parameters)?;
        refuse_none(&args.ask, &answer.interfaces)?;
        if args.ask.format == ReportFormat::Json {
            return write_json(out, &answer);
        }
        if answer.name.is_some() {
            writeln!(out, "  {}", show(answer.ip, answer.name.as_deref()))?;
        }
        let mut table = EstimateTable::new(&args.ask);
        for node in &answer.interfaces {
            let peers = [("to", &node.fan_out), ("from", &node.fan_in)];
            let [to, from] = peers.map(|(way, fan)| report::answer::peers(way, fan, table.units));
            let place = place(&node.interface, node.window, &node.time);
            table.push(&place, "sent", &node.sent, to);
            table.push(&place, "received", &node.received, from);
        }
        return table.write(out);
    }
    let answer: FlowAnswer = client::get(agent, answers::FLOW, &parameters)?;
    refuse_none(&args.ask, &answer.interfaces)?;
    if args.ask.format == ReportFormat::Json {
        return write_json(out, &answer);
    }
    let ends = Between {
        src: answer.src,
        dst: answer.dst,
    };
    // Of a pair, who asked knows all but the names of its networks.
    let is_pair = ends.pair().is_some();
    if !is_pair || answer.names.src_name.is_some() {
        writeln!(out, "  {}", ends.show(&answer.names))?;
    }
    let mut table = EstimateTable::new(&args.ask);
    for flow in &answer.interfaces {
        let what = match (args.both, is_pair) {
            (true, _) => "there",
            (false, true) => "pair",
            (false, false) => "sent",
        };
        let place = place(&flow.interface, flow.window, &flow.time);
        table.push(&place, what, &flow.estimate, None);
        if let Some(back) = &flow.back {
            table.push(&place, "back", back, None);
        }
    }
    table.write(out)
}

/// Before the first window is complete nothing is known of the last one, which
/// an empty table would not tell.
fn refuse_none<T>(ask: &Ask, interfaces: &[T]) -> anyhow::Result<()> {
    anyhow::ensure!(
        !interfaces.is_empty() || ask.window != Some(WindowName::Last),
        "no window is complete yet; ask again later, or about what there is so far with \
         --window current"
    );
    Ok(())
}

/// An interface and the window that answers for it, with its time.
fn place(interface: &str, window: WindowName, time: &WindowTime) -> String {
    let (interface, window) = (plain::text(interface), window.name());
    let when = time.start.map_or_else(String::new, |start| {
        let seconds = units::duration(time.seconds);
        format!(": {}, {seconds}", units::time(start))
    });
    format!("{interface} ({window} window{when})")
}

/// What interfaces know, for people: a line on whom, then the answer in words.
struct EstimateTable {
    lines: Vec<String>,
    units: Units,
}

impl EstimateTable {
    fn new(ask: &Ask) -> Self {
        Self {
            lines: Vec::new(),
            units: Units::of(ask.exact),
        }
    }

    fn push(&mut self, place: &str, what: &str, estimate: &Estimate, peers: Option<String>) {
        let never = match what {
            "pair" => "never occurred",
            _ => "nothing, for certain",
        };
        let answer = report::answer::lines(estimate, None, never, self.units);
        self.lines.push(format!("{place}, {what}"));
        let answer = answer.into_iter().chain(peers);
        self.lines.extend(answer.map(|line| format!("  {line}")));
    }

    fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut lines = self.lines.iter();
        Ok(lines.try_for_each(|line| writeln!(out, "  {line}"))?)
    }
}

/// Shows who is heavy: live on a terminal, else once.
pub fn top(args: &Top, out: &mut impl Write) -> anyhow::Result<()> {
    if args.once || args.ask.format == ReportFormat::Json || !terminal::is_live() {
        return top_once(args, out);
    }
    top::run(top::Options {
        agent: agent(&args.ask)?,
        interface: args.ask.interface.clone(),
        // What moves is the current one.
        window: args.ask.window.unwrap_or(WindowName::Current),
        by: args.by,
        units: Units::of(args.ask.exact),
        interval: args.interval,
        colours: terminal::has_colours(io::stdout().is_terminal()),
    })
}

/// Prints who is heavy.
fn top_once(args: &Top, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let by = match args.by {
        By::Bytes => "bytes",
        By::Packets => "packets",
    };
    parameters.push(("by", by.into()));
    let answer: HeavyHitters =
        client::get(&agent(&args.ask)?, answers::HEAVY_HITTERS, &parameters)?;
    refuse_none(&args.ask, &answer.interfaces)?;
    if args.ask.format == ReportFormat::Json {
        return write_json(out, &answer);
    }
    let units = Units::of(args.ask.exact);
    for interface in &answer.interfaces {
        let state = &interface.state;
        let seconds = state.seen_seconds();
        let per_second = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        write!(
            out,
            "{} ({} window",
            plain::text(&interface.interface),
            interface.window.name(),
        )?;
        match state.start {
            Some(start) => writeln!(
                out,
                ")\n  {}, {}",
                units::time(start),
                units::duration(state.seconds)
            )?,
            None => writeln!(out, ")")?,
        }
        let (packets, bytes) = (units.count(state.packets), units.bytes(state.bytes));
        match per_second(state.packets).zip(per_second(state.bytes)) {
            Some((rate, bits)) => writeln!(
                out,
                "  {packets} packets ({}), {bytes} ({})",
                units.packets_per_second(rate),
                units.bits_per_second(8.0 * bits)
            )?,
            None => writeln!(out, "  {packets} packets, {bytes}")?,
        }
        let pair = |pair: &HeavyPair| {
            let [src, dst] = pair.names.show(pair.src, pair.dst);
            let service = pair.service.map_or_else(String::new, |one| one.to_string());
            (vec![format!("{src} → {dst}"), service], pair.estimate)
        };
        let node = |node: &HeavyNode| (vec![show(node.ip, node.name.as_deref())], node.estimate);
        let service = |one: &HeavyService| (vec![one.service.to_string()], one.estimate);
        let rate = |estimate: &Estimate| per_second(estimate.bytes);
        let mut list = |titles: &[&str], entries: Vec<(Vec<String>, Estimate)>| {
            write_list(out, units, titles, entries, rate)
        };
        let pairs = interface.pairs.iter().map(pair);
        list(&["pairs", "service"], pairs.collect())?;
        list(&["sources"], interface.sources.iter().map(node).collect())?;
        let destinations = interface.destinations.iter().map(node);
        list(&["destinations"], destinations.collect())?;
        let services = interface.services.iter().map(service);
        list(&["services"], services.collect())?;
        report::fans::write(out, &interface.fans, units)?;
        writeln!(out)?;
    }
    Ok(())
}

/// A list with the bytes a second of each entry that was counted.
fn write_list(
    out: &mut impl Write,
    units: Units,
    titles: &[&str],
    entries: Vec<(Vec<String>, Estimate)>,
    rate: impl Fn(&Estimate) -> Option<f64>,
) -> anyhow::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut table = Columns::new(titles, &["packets", "bytes", "rate"]);
    for (mut cells, estimate) in entries {
        let rate = rate(&estimate).map(|bytes| units.bits_per_second(8.0 * bytes));
        cells.extend([
            units.count(estimate.packets),
            units.bytes(estimate.bytes),
            rate.unwrap_or_else(|| "–".into()),
        ]);
        table.push(cells);
    }
    writeln!(out)?;
    Ok(table.write(out)?)
}

fn write_json(out: &mut impl Write, answer: &impl Serialize) -> anyhow::Result<()> {
    // As an error of the output, which may be a closed pipe.
    serde_json::to_writer_pretty(&mut *out, answer).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

/// The agent that is meant, with the password from a file or a variable.
fn agent(ask: &Ask) -> anyhow::Result<Agent> {
    let given = &ask.credentials;
    let password = || match &given.password_file {
        Some(path) => {
            let shown = || format!("{} cannot be read", path.display());
            let text = std::fs::read_to_string(path).with_context(shown)?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
        None => std::env::var(PASSWORD)
            .with_context(|| format!("--user needs a password: --password-file or {PASSWORD}")),
    };
    let login = given
        .user
        .clone()
        .map(|user| anyhow::Ok((user, password()?)));
    Ok(Agent {
        at: ask.agent.clone(),
        login: login.transpose()?,
        ca: given.ca.clone(),
        identity: given.cert.clone().zip(given.key.clone()),
    })
}

fn common(ask: &Ask) -> Vec<(&'static str, String)> {
    let interface = ask.interface.iter().map(|name| ("interface", name.clone()));
    let window = ask.window.map(|window| ("window", window.name().into()));
    interface.chain(window).collect()
}
