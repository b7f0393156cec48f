//! `crane-agent query` and `crane-agent top`: clients of a running agent.

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::{Ask, By, Query, ReportFormat, Top};
use crate::http::answers::{
    self, Estimate, FlowAnswer, HeavyHitters, HeavyNode, HeavyPair, NodeAnswer,
};
use crate::http::client;
use crate::names::show;
use crate::plain;
use crate::sketch::answer::WindowName;

/// Asks about a pair or a node.
pub fn query(args: &Query, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let mut add = |name, ip: &Option<_>| {
        parameters.extend(ip.map(|ip: std::net::IpAddr| (name, ip.to_string())));
    };
    add("src", &args.src);
    add("dst", &args.dst);
    add("ip", &args.node);
    let agent = &args.ask.agent;
    if args.node.is_some() {
        let answer: NodeAnswer = client::get(agent, answers::NODE, &parameters)?;
        refuse_none(&args.ask, &answer.interfaces)?;
        if args.ask.format == ReportFormat::Json {
            return write_json(out, &answer);
        }
        if answer.name.is_some() {
            writeln!(out, "{}", show(answer.ip, answer.name.as_deref()))?;
        }
        write_head(out)?;
        for node in &answer.interfaces {
            write_estimate(out, &node.interface, node.window, "sent", &node.sent)?;
            write_estimate(
                out,
                &node.interface,
                node.window,
                "received",
                &node.received,
            )?;
        }
        return Ok(());
    }
    let answer: FlowAnswer = client::get(agent, answers::FLOW, &parameters)?;
    refuse_none(&args.ask, &answer.interfaces)?;
    if args.ask.format == ReportFormat::Json {
        return write_json(out, &answer);
    }
    if answer.names.src_name.is_some() {
        let [src, dst] = answer.names.show(answer.src, answer.dst);
        writeln!(out, "{src} → {dst}")?;
    }
    write_head(out)?;
    for flow in &answer.interfaces {
        write_estimate(out, &flow.interface, flow.window, "pair", &flow.estimate)?;
    }
    Ok(())
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

fn write_head(out: &mut impl Write) -> anyhow::Result<()> {
    Ok(writeln!(
        out,
        "{:<24} {:<8} {:<9} {:>14} {:>16} {:>24}",
        "interface", "window", "", "packets", "bytes", "between"
    )?)
}

fn write_estimate(
    out: &mut impl Write,
    interface: &str,
    window: WindowName,
    what: &str,
    estimate: &Estimate,
) -> anyhow::Result<()> {
    let between = format!("{} and {}", estimate.low, estimate.high);
    Ok(writeln!(
        out,
        "{:<24} {:<8} {what:<9} {:>14} {:>16} {between:>24}",
        plain::text(interface),
        window.name(),
        estimate.packets,
        bytes(estimate),
    )?)
}

/// Shows who is heavy.
pub fn top(args: &Top, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let by = match args.by {
        By::Bytes => "bytes",
        By::Packets => "packets",
    };
    parameters.push(("by", by.into()));
    let answer: HeavyHitters = client::get(&args.ask.agent, answers::HEAVY_HITTERS, &parameters)?;
    refuse_none(&args.ask, &answer.interfaces)?;
    if args.ask.format == ReportFormat::Json {
        return write_json(out, &answer);
    }
    for interface in &answer.interfaces {
        writeln!(
            out,
            "{}: {} packets, {} bytes in {:.0} s ({} window)",
            plain::text(&interface.interface),
            interface.state.packets,
            interface.state.bytes,
            interface.state.seconds,
            interface.window.name(),
        )?;
        let pair = |pair: &HeavyPair| {
            let [src, dst] = pair.names.show(pair.src, pair.dst);
            (format!("{src} → {dst}"), pair.estimate)
        };
        let node = |node: &HeavyNode| (show(node.ip, node.name.as_deref()), node.estimate);
        write_list(out, "pairs", interface.pairs.iter().map(pair))?;
        write_list(out, "sources", interface.sources.iter().map(node))?;
        write_list(out, "destinations", interface.destinations.iter().map(node))?;
    }
    Ok(())
}

fn write_list(
    out: &mut impl Write,
    title: &str,
    entries: impl ExactSizeIterator<Item = (String, Estimate)>,
) -> anyhow::Result<()> {
    if entries.len() == 0 {
        return Ok(());
    }
    writeln!(out, "\n  {title:<84} {:>14} {:>16}", "packets", "bytes")?;
    for (name, estimate) in entries {
        let (packets, bytes) = (estimate.packets, bytes(&estimate));
        writeln!(out, "  {name:<84} {packets:>14} {bytes:>16}")?;
    }
    Ok(writeln!(out)?)
}

fn write_json(out: &mut impl Write, answer: &impl Serialize) -> anyhow::Result<()> {
    // As an error of the output, which may be a closed pipe.
    serde_json::to_writer_pretty(&mut *out, answer).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

/// The bytes, or what was counted of them.
fn bytes(estimate: &Estimate) -> String {
    match (estimate.bytes, estimate.bytes_at_least) {
        (Some(bytes), _) => bytes.to_string(),
        (None, 0) => "unknown".into(),
        (None, bytes) => format!("≥ {bytes}"),
    }
}

fn common(ask: &Ask) -> Vec<(&'static str, String)> {
    let interface = ask.interface.iter().map(|name| ("interface", name.clone()));
    let window = ask.window.map(|window| ("window", window.name().into()));
    interface.chain(window).collect()
}
