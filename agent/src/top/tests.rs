mod screen;
mod services;

use std::net::IpAddr;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::json;

use super::draw::{self, Look};
use super::feed::{Chosen, Request, Update};
use super::found::{Answer, Found};
use super::keys::{self, Then};
use super::node::{Node, Peer};
use super::opened::{Details, Opened};
use super::service::PairsOfService;
use super::state::State;
use crate::lookup::AddressInfo;
use crate::text::units::Units;
use crate::traffic::question::{By, WindowName};
use crate::window::answer::NodeEstimate;
use crate::window::rates::{Order, Period, RowRates};
use crate::window::services::NodeServices;

/// Numbers of an answer around an estimate.
fn numbers(packets: u64, off: u64) -> serde_json::Value {
    json!({
        "packets": packets, "low": packets - off, "high": packets + off,
        "at_least": packets - off, "at_most": packets + off,
        "bytes": 100 * packets, "bytes_low": 100 * (packets - off),
        "bytes_high": 100 * (packets + off),
        "bytes_at_least": 0, "bytes_at_most": 100 * (packets + off),
    })
}

fn with(mut one: serde_json::Value, other: serde_json::Value) -> serde_json::Value {
    let other = other.as_object().unwrap().clone();
    one.as_object_mut().unwrap().extend(other);
    one
}

fn window() -> serde_json::Value {
    json!({"start": 1.7e9, "end": null, "seconds": 10.0, "packets": 1000, "bytes": 100_000})
}

fn update(request: Request, packets: [u64; 2]) -> Update {
    let pair = |src: &str, dst: &str, packets, off| {
        with(json!({"src": src, "dst": dst}), numbers(packets, off))
    };
    let node = |ip: &str, packets| with(json!({"ip": ip}), numbers(packets, 0));
    let fan =
        |ip: &str, peers| json!({"ip": ip, "peers": peers, "low": peers - 7, "high": peers + 7});
    let hitters = json!({
        "interface": "eth0", "window": "current",
        "pairs": [
            pair("10.0.0.1", "10.0.0.2", packets[0], 0),
            pair("2001:db8:aaaa:bbbb:cccc:dddd:eeee:1", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:2", packets[1], 40),
        ],
        "sources": [node("10.0.0.1", packets[0])],
        "destinations": [node("10.0.0.2", packets[0])],
        "services": [with(json!({"protocol": "tcp", "port": 443}), numbers(300, 0))],
        "fan_out": [fan("10.0.0.67", 2047)],
        "fan_in": [fan("10.0.0.4", 300)],
    });
    let interface = |name: &str| {
        json!({
            "interface": name, "up": true, "packets": 1, "bytes": 1, "edges": 1, "ignored": {},
            "dropped": {"ring_full": 3}, "protocols": {},
            "groups": [{"src": "office", "dst": "other", "packets": 9, "bytes": 900}],
            "layers": 1, "expansions": 0, "memory_bytes": 4096, "saturated": false,
            "current": window(), "last": null,
        })
    };
    let details = request.opened.as_ref().map(|opened| Ok(known(opened)));
    let all = request.interfaces == Chosen::All;
    let names: &[&str] = if all { &["eth0", "eth1"] } else { &["eth0"] };
    let hitters = names.iter().map(|name| {
        let hitters = with(hitters.clone(), json!({"interface": name}));
        serde_json::from_value(with(hitters, window())).unwrap()
    });
    let hitters = hitters.collect();
    Update {
        interface: (!all).then(|| "eth0".into()),
        hitters: if details.is_some() {
            Vec::new()
        } else {
            hitters
        },
        found: request.missing.as_ref().map(|text| Found {
            text: text.clone(),
            answer: match (text.parse(), text.parse()) {
                (Ok(ip), _) => Answer::Details(known(&Opened::Node(ip))),
                (_, Ok(service)) => Answer::Details(known(&Opened::Service(service))),
                _ => Answer::Refused("not possible".into()),
            },
        }),
        request,
        interfaces: serde_json::from_value(
            json!({"interfaces": [interface("eth0"), interface("eth1")]}),
        )
        .unwrap(),
        details,
    }
}

/// The answer of the agent about what is opened.
fn known(opened: &Opened) -> Details {
    let filter = match opened {
        Opened::Node(ip) => return Details::Node(Box::new(known_node(*ip))),
        Opened::Service(filter) => filter.clone(),
    };
    let pair = json!({
        "src": "10.0.0.5", "dst": "10.0.0.6",
        "dst_asn": 64496, "dst_as_name": "Example", "dst_country": "NL",
    });
    let answer = json!({
        "estimate": numbers(300, 0), "pairs": [with(pair, numbers(290, 0))],
        "others_at_most": 3, "incomplete": false,
    });
    Details::Service(Box::new(PairsOfService {
        filter,
        interface: "eth0".into(),
        state: serde_json::from_value(with(window(), json!({"packets": 1200}))).unwrap(),
        known: serde_json::from_value(answer).unwrap(),
        by: By::Packets,
    }))
}

fn known_node(ip: IpAddr) -> Node {
    let of = |packets| serde_json::from_value(numbers(packets, 0)).unwrap();
    let fan = json!({"peers": 2, "low": 2, "high": 2});
    let fan = || serde_json::from_value(fan.clone()).unwrap();
    Node {
        ip,
        name: None,
        info: AddressInfo {
            host: Some("www.example".into()),
            ..AddressInfo::default()
        },
        interface: "eth0".into(),
        state: serde_json::from_value(with(window(), json!({"packets": 1042}))).unwrap(),
        rates: None,
        known: NodeEstimate {
            sent: of(40),
            received: of(2),
            fan_out: fan(),
            fan_in: fan(),
            services: Some(NodeServices {
                sent: serde_json::from_value(json!([with(
                    json!({"protocol": "udp", "port": 53}),
                    numbers(7, 0)
                )]))
                .unwrap(),
                received: Vec::new(),
            }),
        },
        peers: vec![Peer {
            ip: "10.9.9.9".parse().unwrap(),
            name: Some("branch".into()),
            info: AddressInfo {
                asn: Some(64500),
                country: Some("DE".into()),
                ..AddressInfo::default()
            },
            sent: Some(of(33)),
            received: Some(of(1)),
            rates: RowRates::default(),
        }],
        by: By::Packets,
    }
}

fn state() -> State {
    let request = Request {
        interfaces: Chosen::Busiest,
        window: WindowName::Current,
        order: Order::Window(By::Packets),
        rows: 1,
        opened: None,
        missing: None,
    };
    let mut state = State::new("here:9732", &request, Units::Readable);
    receive(&mut state);
    state
}

/// Takes an answer to the current request.
fn receive(state: &mut State) {
    let request = state.request();
    state.receive(Ok(update(request, [500, 400])));
}

fn press(state: &mut State, keys: &str) -> Then {
    let mut then = Then::Draw;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            '→' => KeyCode::Right,
            key => KeyCode::Char(key),
        };
        then = keys::press(state, KeyEvent::new(code, KeyModifiers::NONE));
    }
    then
}

/// Lines of the screen, and whether there are colours in it.
fn drawn(state: &mut State, size: (u16, u16), colours: bool) -> (Vec<String>, bool) {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal
        .draw(|frame| draw::draw(state, Look { colours }, frame))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(size.0.max(1).into());
    let text = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect();
    let lines = lines.map(text).collect();
    let coloured = buffer
        .content
        .iter()
        .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    (lines, coloured)
}

fn screen(state: &mut State) -> String {
    drawn(state, (80, 24), true).0.join("\n")
}

#[test]
fn the_heaviest_pair_is_first_with_its_share_and_a_bar() {
    let text = screen(&mut state());
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains("here:9732") && lines[0].contains("eth0 (1 of 2)"),
        "{text}"
    );
    assert!(
        lines[1].starts_with("1000 packets (100 packets/s)"),
        "{text}"
    );
    assert!(lines[1].contains("3 lost"), "{text}");
    assert!(
        lines[4].starts_with("> 10.0.0.1") && lines[4].contains("50.00%"),
        "{text}"
    );
    assert!(lines[4].contains('█'), "{text}");
    // Text that does not fit is cut, not wrapped.
    assert!(
        lines[5].contains("2001:db8") && lines[5].contains('…'),
        "{text}"
    );
}

#[test]
fn an_interval_is_shown_unless_it_is_a_single_number() {
    let wide = drawn(&mut state(), (200, 24), true).0.join("\n");
    assert!(
        wide.contains("360–440") && !wide.contains("500–500"),
        "{wide}"
    );
    assert!(wide.contains('░'), "{wide}");
}

#[test]
fn every_tab_shows_its_rows_and_can_be_drawn_at_every_size() {
    for (key, part) in [
        ("2", "no packets in this window yet"),
        ("3", "10.0.0.1"),
        ("4", "10.0.0.2"),
        ("5", "tcp/443 https"),
        ("6", "10.0.0.67"),
        ("7", "10.0.0.4"),
        ("8", "office"),
        ("9", "eth1"),
        ("?", "Ctrl-C"),
    ] {
        let mut state = state();
        press(&mut state, key);
        assert!(
            screen(&mut state).contains(part),
            "{key}: {}",
            screen(&mut state)
        );
        for size in [
            (1, 1),
            (5, 3),
            (20, 6),
            (60, 15),
            (80, 24),
            (200, 50),
            (500, 9),
        ] {
            let (_, coloured) = drawn(&mut state, size, false);
            assert!(!coloured, "{size:?}");
            drawn(&mut state, size, true);
        }
    }
}

#[test]
fn after_the_last_tab_comes_the_first() {
    let mut state = state();
    press(&mut state, "\t\t\t\t\t");
    assert!(screen(&mut state).contains("fan-out"));
    press(&mut state, "\t\t\t\t");
    assert!(screen(&mut state).contains("> 10.0.0.1"));
}

#[test]
fn sorting_by_a_column_requests_the_heaviest_by_it() {
    let mut state = state();
    assert!(screen(&mut state).contains("packets▼"));
    press(&mut state, "s");
    assert!(screen(&mut state).contains("bytes▼"));
    assert_eq!(state.request().order, Order::Window(By::Bytes));
    press(&mut state, "S");
    assert_eq!(state.request().order, Order::Window(By::Packets));
    press(&mut state, "r");
    let text = screen(&mut state);
    assert!(
        text.contains("packets▲") && text.contains("> 2001:db8"),
        "{text}"
    );
}

#[test]
fn a_filter_is_written_kept_and_cleared() {
    let mut state = state();
    // q is a letter while the filter is written.
    assert_eq!(press(&mut state, "/q"), Then::Draw);
    assert!(screen(&mut state).contains("nothing with \"q\" here"));
    press(&mut state, "\x1b/2001:DB8\n");
    let text = screen(&mut state);
    assert!(
        text.contains("2001:db8") && !text.contains("10.0.0.1"),
        "{text}"
    );
    assert!(text.contains("only \"2001:DB8\""), "{text}");
    press(&mut state, "\x1b");
    assert!(screen(&mut state).contains("10.0.0.1"));
}

#[test]
fn a_pause_keeps_the_shown_answer() {
    let mut state = state();
    press(&mut state, "p");
    let request = state.request();
    state.receive(Ok(update(request.clone(), [501, 400])));
    let text = screen(&mut state);
    assert!(
        text.contains("PAUSED") && text.contains("  500  "),
        "{text}"
    );
    press(&mut state, " ");
    state.receive(Ok(update(request, [501, 400])));
    let text = screen(&mut state);
    assert!(text.contains("live") && text.contains("  501  "), "{text}");
}

#[test]
fn an_address_opens_its_peers_and_esc_goes_back() {
    let mut state = state();
    press(&mut state, "→\n");
    let ip: IpAddr = "10.0.0.2".parse().unwrap();
    assert_eq!(state.request().opened, Some(Opened::Node(ip)));
    assert!(screen(&mut state).contains("asking …"));
    receive(&mut state);
    let text = drawn(&mut state, (120, 24), true).0.join("\n");
    assert!(
        text.contains("1042 packets (104"),
        "the window of the answer about the address: {text}"
    );
    for part in [
        "peers of 10.0.0.2 (www.example)",
        "40 packets, exact",
        "to 2 addresses",
        "10.9.9.9 (branch, AS64500, DE)",
    ] {
        assert!(text.contains(part), "{text}");
    }
    press(&mut state, "\x1b");
    assert_eq!(state.request().opened, None);
    assert!(screen(&mut state).contains("> 10.0.0.1"));
}

#[test]
fn the_cursor_stays_on_its_row() {
    let mut state = state();
    press(&mut state, "↓");
    let request = state.request();
    state.receive(Ok(update(request, [500, 600])));
    let text = screen(&mut state);
    assert!(
        text.lines().nth(4).unwrap().starts_with("> 2001:db8"),
        "{text}"
    );
}

#[test]
fn an_agent_that_does_not_answer_is_reported_until_it_answers_again() {
    let mut state = state();
    state.receive(Err(anyhow::anyhow!("no agent answers\x1b[2J")));
    let text = screen(&mut state);
    assert!(
        text.contains("GONE") && text.contains("no agent answers\\u{1b}"),
        "{text}"
    );
    // The latest answer is still shown.
    assert!(text.contains("10.0.0.1"), "{text}");
    let request = state.request();
    state.receive(Ok(update(request, [70, 60])));
    let text = screen(&mut state);
    assert!(
        text.contains("live") && !text.contains("no agent"),
        "{text}"
    );
}

#[test]
fn q_and_control_c_quit() {
    let mut state = state();
    assert_eq!(press(&mut state, "q"), Then::Quit);
    assert_eq!(press(&mut state, "?q"), Then::Quit);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut state, "/");
    assert_eq!(keys::press(&mut state, control_c), Then::Quit);
}

#[test]
fn an_interface_is_chosen() {
    let mut state = state();
    press(&mut state, "i");
    assert_eq!(state.request().interfaces, Chosen::One("eth1".into()));
    press(&mut state, "I7\n");
    assert_eq!(state.request().interfaces, Chosen::One("eth0".into()));
    press(&mut state, "w");
    assert_eq!(state.request().window, WindowName::Last);
}
