//! `crane-agent query` and `crane-agent top`: clients of a running agent.

use std::borrow::Cow;
use std::io::Write;

use serde_json::Value;

use crate::cli::{Ask, By, Query, ReportFormat, Top, WindowName};
use crate::http::client;
use crate::plain;

/// Asks about a pair or a node.
pub fn query(args: &Query, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let mut add = |name, ip: &Option<_>| {
        parameters.extend(ip.map(|ip: std::net::IpAddr| (name, ip.to_string())));
    };
    add("src", &args.src);
    add("dst", &args.dst);
    add("ip", &args.node);
    let path = if args.node.is_some() {
        "/api/v1/node"
    } else {
        "/api/v1/flow"
    };
    let answer = client::get(&args.ask.agent, path, &parameters)?;
    if args.ask.format == ReportFormat::Json {
        return Ok(writeln!(out, "{answer:#}")?);
    }
    writeln!(
        out,
        "{:<24} {:<8} {:<9} {:>14} {:>16} {:>24}",
        "interface", "window", "", "packets", "bytes", "between"
    )?;
    for entry in answer["interfaces"].as_array().into_iter().flatten() {
        for (key, shown) in [
            ("estimate", "pair"),
            ("sent", "sent"),
            ("received", "received"),
        ] {
            let estimate = &entry[key];
            if estimate.is_null() {
                continue;
            }
            let between = format!("{} and {}", estimate["low"], estimate["high"]);
            writeln!(
                out,
                "{:<24} {:<8} {shown:<9} {:>14} {:>16} {between:>24}",
                text(&entry["interface"]),
                text(&entry["window"]),
                estimate["packets"].to_string(),
                bytes(estimate),
            )?;
        }
    }
    Ok(())
}

/// Shows who is heavy.
pub fn top(args: &Top, out: &mut impl Write) -> anyhow::Result<()> {
    let mut parameters = common(&args.ask);
    let by = if args.by == By::Bytes {
        "bytes"
    } else {
        "packets"
    };
    parameters.push(("by", by.into()));
    let answer = client::get(&args.ask.agent, "/api/v1/heavy-hitters", &parameters)?;
    if args.ask.format == ReportFormat::Json {
        return Ok(writeln!(out, "{answer:#}")?);
    }
    for interface in answer["interfaces"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "{}: {} packets, {} bytes in {:.0} s ({} window)",
            text(&interface["interface"]),
            interface["packets"],
            interface["bytes"],
            interface["seconds"].as_f64().unwrap_or(0.0),
            text(&interface["window"]),
        )?;
        write_list(out, "pairs", &interface["pairs"], |entry| {
            format!("{} → {}", text(&entry["src"]), text(&entry["dst"]))
        })?;
        write_list(out, "sources", &interface["sources"], |entry| {
            text(&entry["ip"]).into_owned()
        })?;
        write_list(out, "destinations", &interface["destinations"], |entry| {
            text(&entry["ip"]).into_owned()
        })?;
    }
    Ok(())
}

fn write_list(
    out: &mut impl Write,
    title: &str,
    list: &Value,
    name: fn(&Value) -> String,
) -> anyhow::Result<()> {
    let Some(entries) = list.as_array().filter(|entries| !entries.is_empty()) else {
        return Ok(());
    };
    writeln!(out, "\n  {title:<84} {:>14} {:>16}", "packets", "bytes")?;
    for entry in entries {
        let (packets, bytes) = (entry["packets"].to_string(), bytes(entry));
        writeln!(out, "  {:<84} {packets:>14} {bytes:>16}", name(entry))?;
    }
    writeln!(out)?;
    Ok(())
}

/// The bytes of an entry, or what was counted of them.
fn bytes(entry: &Value) -> String {
    match (entry["bytes"].as_u64(), entry["bytes_at_least"].as_u64()) {
        (Some(bytes), _) => bytes.to_string(),
        (None, Some(bytes)) if bytes > 0 => format!("≥ {bytes}"),
        _ => "unknown".into(),
    }
}

fn common(ask: &Ask) -> Vec<(&'static str, String)> {
    let window = ask.window.map(|window| match window {
        WindowName::Current => "current",
        WindowName::Last => "last",
    });
    let interface = ask.interface.iter().map(|name| ("interface", name.clone()));
    interface
        .chain(window.map(|name| ("window", name.into())))
        .collect()
}

fn text(value: &Value) -> Cow<'_, str> {
    plain::text(value.as_str().unwrap_or_default())
}
