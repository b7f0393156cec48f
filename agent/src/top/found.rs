//! Questions to the agent about a filter text that matches no row, such as an address that is not
//! among the heaviest.

use super::node::labelled;
use super::opened::{Details, Opened};
use crate::http::answers::{self, FlowAnswer};
use crate::http::client::{self, Agent};
use crate::lookup::parse_asn;
use crate::report;
use crate::text::plain;
use crate::text::units::Units;
use crate::traffic::endpoint::{Between, Endpoint};
use crate::traffic::question::By;
use crate::traffic::service::Service;
use crate::traffic::service::filter::ServiceFilter;
use crate::window::answer::FlowEstimate;

/// The answer of the agent about a text.
#[derive(Debug)]
pub struct Found {
    /// The filter text.
    pub text: String,
    pub answer: Answer,
}

#[derive(Debug)]
pub enum Answer {
    /// The text is an address or a service.
    Details(Details),
    /// The text is two ends, perhaps with a service, or a network or AS; then the other end is
    /// any address.
    Flow {
        /// The ends and the service as they are shown.
        ends: String,
        flow: Box<FlowEstimate>,
    },
    /// The reason why there is no answer.
    Refused(String),
}

/// The question that a text stands for.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    Opened(Opened),
    /// Two ends, and a service of them. `None` for all.
    Flow([String; 2], Option<ServiceFilter>),
}

fn question(text: &str) -> Option<Question> {
    let text = text.trim();
    if let Ok(ip) = text.parse() {
        return Some(Question::Opened(Opened::Node(ip)));
    }
    if let Some(service) = service(text) {
        return Some(Question::Opened(Opened::Service(service)));
    }
    let is_separator = |c: char| c.is_whitespace() || matches!(c, ',' | '→' | '>');
    let ends: Vec<&str> = text
        .split(is_separator)
        .filter(|end| !end.is_empty())
        .collect();
    let are_ends = |ends: &[&str]| ends.iter().all(|end| end.parse::<Endpoint>().is_ok());
    match ends[..] {
        [src, dst] if are_ends(&[src, dst]) => Some(Question::Flow([src.into(), dst.into()], None)),
        [src, dst, ref of @ ..] if are_ends(&[src, dst]) => {
            let service = service(&of.join(" "))?;
            Some(Question::Flow([src.into(), dst.into()], Some(service)))
        }
        // Other words are no ends, because a part of an address could also be a name.
        [one] if (one.contains('/') || parse_asn(one).is_some()) && are_ends(&[one]) => {
            Some(Question::Flow([one.into(), "*".into()], None))
        }
        _ => None,
    }
}

/// A service as one word, or in the form of lists: `tcp/443 https`.
fn service(text: &str) -> Option<ServiceFilter> {
    let filter = text.parse::<ServiceFilter>().ok()?;
    let is_shown = |one: &Service| one.to_string() == text;
    let is_one = || {
        filter
            .services()
            .is_some_and(|all| all.iter().any(is_shown))
    };
    let is_valid = !text.contains(char::is_whitespace) || is_one();
    is_valid.then_some(filter)
}

/// Whether the agent can be asked about this text.
pub fn can_be_asked(text: &str) -> bool {
    question(text).is_some()
}

/// Asks the agent about a text. `None` if that is not possible.
pub fn ask(agent: &Agent, text: &str, common: &[(&'static str, String)]) -> Option<Found> {
    let answer = match question(text)? {
        Question::Opened(opened) => {
            let details = opened.ask(agent, By::Bytes, common);
            details.map(Answer::Details)
        }
        Question::Flow(ends, service) => flow(agent, ends, service.as_ref(), common),
    };
    let answer = answer.unwrap_or_else(|error| Answer::Refused(format!("{error:#}")));
    let text = text.to_owned();
    Some(Found { text, answer })
}

fn flow(
    agent: &Agent,
    [src, dst]: [String; 2],
    service: Option<&ServiceFilter>,
    common: &[(&'static str, String)],
) -> anyhow::Result<Answer> {
    let mut asked = vec![("src", src), ("dst", dst), ("both", "true".into())];
    match service {
        Some(service) => asked.push(("service", service.to_string())),
        None => {
            asked.push(("services", "true".into()));
            asked.push(("by", By::Bytes.name().into()));
        }
    }
    let answer: FlowAnswer = client::get(agent, answers::FLOW, &[common, &asked].concat())?;
    let ends = Between {
        src: answer.src,
        dst: answer.dst,
    };
    let on = answer.service.iter().map(|service| format!(", {service}"));
    let ends = ends.show(&answer.names, answer.info.each()) + &on.collect::<String>();
    let flows = answer.interfaces.into_iter().map(|one| one.flow);
    let size = |flow: &FlowEstimate| flow.estimate.bytes + flow.back.map_or(0, |back| back.bytes);
    Ok(match flows.max_by_key(size) {
        Some(flow) => Answer::Flow {
            ends,
            flow: Box::new(flow),
        },
        None => Answer::Refused("no window is complete yet".into()),
    })
}

impl Found {
    /// The details that can be opened.
    pub fn details(&self) -> Option<&Details> {
        match &self.answer {
            Answer::Details(details) => Some(details),
            Answer::Flow { .. } | Answer::Refused(_) => None,
        }
    }

    /// The answer in words.
    pub fn in_words(&self, units: Units) -> Vec<String> {
        match &self.answer {
            Answer::Refused(why) => vec![plain::text(why).into_owned()],
            Answer::Details(details) => {
                let of = plain::text(details.interface());
                let (what, rows) = match details {
                    Details::Node(node) => (node.shown(), "peers"),
                    Details::Service(pairs) => (pairs.filter.to_string(), "pairs"),
                };
                let known = format!("{what} is not in this list; answer of the agent, on {of}:");
                let mut lines = vec![known];
                lines.extend(details.in_words(units));
                lines.push(format!("Enter: its {rows}"));
                lines
            }
            Answer::Flow { ends, flow } => {
                let words = |estimate| report::answer::lines(estimate, None, units);
                let there = words(&flow.estimate);
                let mut lines = vec![format!("{ends} is not in this list; answer of the agent:")];
                let services = flow.services.as_deref().unwrap_or_default();
                let services = report::services::line(services, By::Bytes, units);
                let services = services.map(|services| format!("for {services}"));
                lines.extend(labelled("src → dst", there, [services]));
                if let Some(back) = &flow.back {
                    lines.extend(labelled("dst → src", words(back), []));
                }
                lines
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_ends_may_have_a_service() {
        let flow = |dst: &str, service: Option<&str>| {
            let service = service.map(|service| service.parse().unwrap());
            Some(Question::Flow(["10.98.0.5".into(), dst.into()], service))
        };
        for (text, dst, service) in [
            ("10.98.0.5 172.20.0.5", "172.20.0.5", None),
            ("10.98.0.5 172.20.0.5 443", "172.20.0.5", Some("443")),
            ("10.98.0.5,172.20.0.5,https", "172.20.0.5", Some("https")),
            ("10.98.0.5 → * udp/443", "*", Some("udp/443")),
            ("10.98.0.5 → *, tcp/443 https", "*", Some("tcp/443")),
        ] {
            assert_eq!(question(text), flow(dst, service), "{text}");
        }
        for text in ["10.98.0.5 172.20.0.5 nonsense", "10.98.0.5 * 443 udp/53"] {
            assert_eq!(question(text), None, "{text}");
        }
    }

    #[test]
    fn a_flow_is_shown_with_its_services() {
        let mut numbers = json!({
            "packets": 5, "low": 5, "high": 5, "at_least": 5, "at_most": 5, "bytes": 700,
            "bytes_low": 700, "bytes_high": 700, "bytes_at_least": 700, "bytes_at_most": 700,
        });
        let estimate = numbers.clone();
        numbers["protocol"] = json!("udp");
        numbers["port"] = json!(443);
        let flow = json!({ "estimate": estimate, "back": estimate, "services": [numbers] });
        let found = Found {
            text: String::new(),
            answer: Answer::Flow {
                ends: "a → b".into(),
                flow: serde_json::from_value(flow).unwrap(),
            },
        };
        let words = found.in_words(Units::Readable).join("\n");
        assert!(words.contains("for udp/443 https (700 B)"), "{words}");
    }
}
