//! `crane-agent query` and `crane-agent top`: clients of a running agent.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

use crate::cli::{Ask, Credentials, Export, Query, ReportFormat, Top};
use crate::http::answers::{
    self, FlowAnswer, HeavyHitters, InterfaceService, NodeAnswer, ServiceAnswer,
};
use crate::http::client::{self, Agent};
use crate::lines::answer::Ends;
use crate::lines::line::{Line, LineFormat};
use crate::lines::window::Of;
use crate::lookup::AddressInfo;
use crate::report::{self, lists::Accuracy};
use crate::text::units::{self, Units};
use crate::text::{plain, terminal};
use crate::top;
use crate::traffic::endpoint::{Between, Endpoint};
use crate::traffic::question::WindowName;
use crate::window::estimate::Estimate;
use crate::window::list::Numbers;
use crate::window::state::WindowTime;

/// Variable with the password for --user.
const PASSWORD: &str = "CRANE_PASSWORD";

pub fn query(args: &Query, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let mut add = |name, value: Option<String>| {
        parameters.extend(value.map(|value| (name, value)));
    };
    let has_ends = args.src.is_some() || args.dst.is_some();
    if has_ends {
        let end = |end: &Option<Endpoint>| Some(end.as_ref().unwrap_or(&Endpoint::Any).to_string());
        add("src", end(&args.src));
        add("dst", end(&args.dst));
    }
    add("both", args.both.then(|| true.to_string()));
    add("ip", args.node.map(|ip| ip.to_string()));
    add(
        "service",
        args.services().map(|service| service.to_string()),
    );
    let by = args.ask.format.order(args.sort);
    add("by", Some(by.name().into()));
    let agent = &agent(&args.ask.agent, &args.ask.credentials)?;
    if args.node.is_none() && !has_ends {
        return query_service(args, agent, &parameters, out);
    }
    // Answers include the services of the traffic, unless the question is about a service.
    if args.services().is_none() {
        parameters.push(("services", true.to_string()));
    }
    if args.node.is_some() {
        let answer: NodeAnswer = client::get(agent, answers::NODE, &parameters)?;
        refuse_none(args.ask.window, &answer.interfaces)?;
        if args.ask.format == ReportFormat::Json {
            return write_json(out, &answer);
        }
        if args.ask.format == ReportFormat::Csv {
            let lines = answer.interfaces.iter().flat_map(|node| {
                let of = of(&node.interface, node.window, &node.state.time);
                of.node(answer.ip, answer.name.as_deref(), &answer.info, &node.node)
            });
            return write_csv(out, &lines.collect::<Vec<_>>());
        }
        let shown = answer.info.show(answer.ip, answer.name.as_deref());
        if shown != answer.ip.to_string() {
            writeln!(out, "  {shown}")?;
        }
        let mut table = EstimateTable::new(&args.ask);
        for node in &answer.interfaces {
            let known = &node.node;
            let peers = [("to", &known.fan_out), ("from", &known.fan_in)];
            let [to, from] = peers.map(|(to, fan)| report::answer::peers(to, fan, table.units));
            let services = known.services.clone().unwrap_or_default();
            let place = place(&node.interface, node.window, &node.state.time);
            let of = report::services::lines(&services.sent, &known.sent, table.units);
            table.push(&place, "sent", &known.sent, to.into_iter().chain(of));
            let of = report::services::lines(&services.received, &known.received, table.units);
            table.push(
                &place,
                "received",
                &known.received,
                from.into_iter().chain(of),
            );
        }
        return table.write(out);
    }
    let answer: FlowAnswer = client::get(agent, answers::FLOW, &parameters)?;
    refuse_none(args.ask.window, &answer.interfaces)?;
    if args.ask.format == ReportFormat::Json {
        return write_json(out, &answer);
    }
    if args.ask.format == ReportFormat::Csv {
        let ends = Ends {
            src: &answer.src,
            dst: &answer.dst,
            names: &answer.names,
            info: &answer.info,
            service: answer.service.as_deref(),
        };
        let lines = answer.interfaces.iter().flat_map(|one| {
            let flow = &one.flow;
            let of = of(&one.interface, one.window, &one.time);
            let services = flow.services.as_deref().unwrap_or_default();
            of.flow(&ends, &flow.estimate, flow.back.as_ref(), services)
        });
        return write_csv(out, &lines.collect::<Vec<_>>());
    }
    let ends = Between {
        src: answer.src,
        dst: answer.dst,
    };
    let on = answer.service.iter().map(|service| format!(", {service}"));
    let on: String = on.collect();
    // The user has given the addresses of a pair, so they are shown only with more information.
    let is_pair = ends.pair().is_some();
    let info = answer.info.each();
    let is_known = info.iter().any(|info| *info != AddressInfo::default());
    if !is_pair || answer.names.src_name.is_some() || is_known {
        writeln!(out, "  {}", ends.show(&answer.names, info))?;
    }
    let mut table = EstimateTable::new(&args.ask);
    for flow in &answer.interfaces {
        let what = match (args.both, is_pair) {
            (true, _) => "src → dst",
            (false, true) => "pair",
            (false, false) => "sent",
        };
        let known = &flow.flow;
        let place = place(&flow.interface, flow.window, &flow.time);
        let of = known.services.as_deref().unwrap_or_default();
        let of = report::services::lines(of, &known.estimate, table.units);
        table.push(&place, &format!("{what}{on}"), &known.estimate, of);
        if let Some(back) = &known.back {
            table.push(&place, &format!("dst → src{on}"), back, None);
        }
    }
    table.write(out)
}

/// Asks which pairs have a service.
fn query_service(
    args: &Query,
    agent: &Agent,
    parameters: &[(&'static str, String)],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let answer: ServiceAnswer = client::get(agent, answers::SERVICE, parameters)?;
    refuse_none(args.ask.window, &answer.interfaces)?;
    if args.ask.format == ReportFormat::Json {
        return write_json(out, &answer);
    }
    let by = args.ask.format.order(args.sort);
    if args.ask.format == ReportFormat::Csv {
        let lines = answer.interfaces.iter().flat_map(|one| {
            let of = of(&one.interface, one.window, &one.state.time);
            of.pairs_of_service(&answer.service, &one.service, by)
        });
        return write_csv(out, &lines.collect::<Vec<_>>());
    }
    for InterfaceService {
        interface,
        window,
        state,
        service,
    } in &answer.interfaces
    {
        let mut table = EstimateTable::new(&args.ask);
        let place = place(interface, *window, &state.time);
        let order = (!service.pairs.is_empty()).then(|| format!("pairs by {}", by.name()));
        table.push(&place, &answer.service, &service.estimate, order);
        table.write(out)?;
        let numbers = Numbers {
            units: table.units,
            by,
            total: [service.estimate.packets, service.estimate.bytes],
            seconds: None,
        };
        report::services::write_pairs(out, service, &numbers)?;
    }
    Ok(())
}

/// Returns an error if no interface has a complete window yet. An empty table would not explain why
/// it is empty.
fn refuse_none<T>(window: Option<WindowName>, interfaces: &[T]) -> anyhow::Result<()> {
    anyhow::ensure!(
        !interfaces.is_empty() || window != Some(WindowName::Last),
        "no window is complete yet; ask again later, or about what there is so far with \
         --window current"
    );
    Ok(())
}

/// Describes an interface, its window and the time of the window.
fn place(interface: &str, window: WindowName, time: &WindowTime) -> String {
    let (interface, window) = (plain::text(interface), window.name());
    let when = time.start.map_or_else(String::new, |start| {
        let seconds = units::duration(time.seconds);
        format!(": {}, {seconds}", units::time(start))
    });
    format!("{interface} ({window} window{when})")
}

/// Answers of interfaces as text: a title for each, then its lines.
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

    fn push(
        &mut self,
        place: &str,
        what: &str,
        estimate: &Estimate,
        more: impl IntoIterator<Item = String>,
    ) {
        let answer = report::answer::lines(estimate, None, self.units);
        self.lines.push(format!("{place}, {what}"));
        let answer = answer.into_iter().chain(more);
        self.lines.extend(answer.map(|line| format!("  {line}")));
    }

    fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut lines = self.lines.iter();
        Ok(lines.try_for_each(|line| writeln!(out, "  {line}"))?)
    }
}

/// Shows the lists: live on a terminal, otherwise once.
pub fn top(args: &Top, out: &mut impl Write) -> anyhow::Result<()> {
    if args.once || args.ask.format != ReportFormat::Table || !terminal::is_live() {
        return top_once(args, out);
    }
    top::run(top::Options {
        agent: agent(&args.ask.agent, &args.ask.credentials)?,
        interface: args.ask.interface.clone(),
        // The live view shows the current window.
        window: args.ask.window.unwrap_or(WindowName::Current),
        all: args.all,
        by: args.ask.format.order(args.by),
        units: Units::of(args.ask.exact),
        interval: args.interval,
        colours: terminal::has_colours(io::stdout().is_terminal()),
    })
}

fn top_once(args: &Top, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let by = args.ask.format.order(args.by);
    parameters.push(("by", by.name().into()));
    let agent = agent(&args.ask.agent, &args.ask.credentials)?;
    let answer: HeavyHitters = client::get(&agent, answers::HEAVY_HITTERS, &parameters)?;
    refuse_none(args.ask.window, &answer.interfaces)?;
    if args.ask.format == ReportFormat::Json {
        return write_json(out, &answer);
    }
    if args.ask.format == ReportFormat::Csv {
        let lines = answer.interfaces.iter().flat_map(|one| {
            let of = of(&one.interface, one.window, &one.state.time);
            of.lines(&one.state, &[&one.lists])
        });
        return write_csv(out, &lines.collect::<Vec<_>>());
    }
    let units = Units::of(args.ask.exact);
    for interface in &answer.interfaces {
        let (state, lists) = (&interface.state, &interface.lists);
        let seconds = state.seen_seconds();
        let per_second = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let (name, window) = (plain::text(&interface.interface), interface.window.name());
        writeln!(out, "{name} ({window} window), by {}", by.name())?;
        if let Some(start) = state.time.start {
            let lasted = units::duration(state.time.seconds);
            writeln!(out, "  {}, {lasted}", units::time(start))?;
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
        let numbers = Numbers {
            units,
            by,
            total: [state.packets, state.bytes],
            seconds: Some(seconds),
        };
        if state.packets > 0 {
            let accuracy = Accuracy {
                exact: state.exact,
                pairs: state.distinct_pairs,
                sampled: false,
            };
            accuracy.write(out, lists, &numbers)?;
        }
        report::lists::write(out, lists, &numbers, state.exact, None)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a window of each interface as lines.
pub fn export(args: &Export, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = vec![("format", args.format.name().into())];
    let interface = args
        .interface
        .iter()
        .map(|name| ("interface", name.clone()));
    parameters.extend(interface);
    parameters.extend(args.window.map(|window| ("window", window.name().into())));
    let agent = agent(&args.agent, &args.credentials)?;
    let lines = client::get_text(&agent, answers::EXPORT, &parameters)?;
    if lines.len() == args.format.head().len() {
        refuse_none(args.window, &[(); 0])?;
    }
    out.write_all(lines.as_bytes())?;
    Ok(out.flush()?)
}

/// The window of an interface that an answer is about.
fn of<'a>(interface: &'a str, window: WindowName, time: &'a WindowTime) -> Of<'a> {
    Of {
        host: None,
        interface,
        complete: window == WindowName::Last,
        time,
    }
}

fn write_csv(out: &mut impl Write, lines: &[Line]) -> anyhow::Result<()> {
    let csv = LineFormat::Csv;
    Ok(write!(out, "{}{}", csv.head(), csv.text(lines))?)
}

fn write_json(out: &mut impl Write, answer: &impl Serialize) -> anyhow::Result<()> {
    // Converted to an I/O error, so that a closed pipe is recognised.
    serde_json::to_writer_pretty(&mut *out, answer).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

/// The agent at this address, with credentials. The password is read from a file or a variable.
fn agent(at: &str, given: &Credentials) -> anyhow::Result<Agent> {
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
        at: at.into(),
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
