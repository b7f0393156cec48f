//! Scrolling, rates, several interfaces, filters that match no row, and the mouse.

use super::*;
use crate::top::tabs::Tab;
use crate::window::lists::LISTS;

/// Takes an answer with `count` rows with rates.
fn many(state: &mut State, count: u64) {
    let mut update = update(state.request(), [500, 400]);
    let rows = (0..count).map(|n| {
        let rate = |bits: u64| json!({"packets_per_second": 1.0, "bits_per_second": bits});
        let rates = json!({"rate_2s": rate(1000 * n), "rate_10s": null});
        let pair = json!({"src": "10.1.0.1", "dst": format!("10.2.0.{n}")});
        with(with(pair, numbers(5000 - n, 0)), rates)
    });
    let hitters =
        json!({"interface": "eth0", "window": "current", "pairs": rows.collect::<Vec<_>>()});
    update.hitters = vec![serde_json::from_value(with(hitters, window())).unwrap()];
    state.receive(Ok(update));
}

#[test]
fn a_list_fills_the_screen_and_scrolls() {
    let mut state = state();
    many(&mut state, 100);
    let shown = |state: &mut State| {
        let (lines, _) = drawn(state, (80, 50), true);
        let rows: Vec<String> = lines
            .iter()
            .filter(|line| line.contains("10.2.0."))
            .cloned()
            .collect();
        let chosen = rows.iter().position(|row| row.starts_with("> "));
        (
            rows.len(),
            chosen.unwrap(),
            rows[0].clone(),
            lines[49].trim_end().to_owned(),
        )
    };
    let (rows, chosen, first, last) = shown(&mut state);
    assert_eq!((rows, chosen), (45, 0), "{first}");
    assert!(
        first.contains("10.2.0.0 ") && last.ends_with("row 1 of 100"),
        "{first} {last}"
    );
    let key = |state: &mut State, code| keys::press(state, KeyEvent::new(code, KeyModifiers::NONE));
    key(&mut state, KeyCode::PageDown);
    let (rows, chosen, first, last) = shown(&mut state);
    assert!(
        rows == 45 && chosen == 44 && last.ends_with("row 46 of 100"),
        "{first} {last}"
    );
    assert!(first.contains("10.2.0.1 "), "{first}");
    key(&mut state, KeyCode::End);
    let (rows, chosen, first, last) = shown(&mut state);
    assert!(
        rows == 45 && chosen == 44 && last.ends_with("row 100 of 100"),
        "{first} {last}"
    );
    assert_eq!(state.request().rows, 500, "all rows are requested");
    // Key up moves the cursor; the rows are not scrolled.
    key(&mut state, KeyCode::Up);
    let (_, chosen, again, _) = shown(&mut state);
    assert!(chosen == 43 && again == first, "{again}");
    key(&mut state, KeyCode::Home);
    assert!(shown(&mut state).2.contains("10.2.0.0 "));
}

#[test]
fn the_number_of_requested_rows_depends_on_the_size_of_the_screen() {
    let mut state = state();
    drawn(&mut state, (80, 24), true);
    assert_eq!(state.request().rows, 50);
    drawn(&mut state, (80, 200), true);
    assert_eq!(state.request().rows, 400);
    press(&mut state, "/x");
    assert_eq!(state.request().rows, 500, "all rows are searched");
}

#[test]
fn an_order_by_rate_is_requested_and_bars_show_the_rate() {
    let mut state = state();
    many(&mut state, 3);
    let wide = |state: &mut State| drawn(state, (120, 24), true).0.join("\n");
    let text = wide(&mut state);
    assert!(
        text.contains("2 s") && text.contains("by packets"),
        "{text}"
    );
    assert!(text.lines().nth(4).unwrap().contains("10.2.0.0 "), "{text}");
    for _ in 0..20 {
        press(&mut state, "s");
        if state.request().order == Order::Rate(Period::TwoSeconds) {
            break;
        }
    }
    many(&mut state, 3);
    let text = wide(&mut state);
    assert!(
        text.contains("by rate of 2 s") && text.contains("2 s▼"),
        "{text}"
    );
    let rows: Vec<&str> = text.lines().skip(4).take(3).collect();
    let bars: Vec<usize> = rows.iter().map(|row| row.matches('█').count()).collect();
    assert!(
        rows[0].contains("10.2.0.2 ") && rows[2].contains("10.2.0.0 "),
        "{text}"
    );
    assert!(
        bars[0] > 5 && bars[1] * 2 == bars[0] && bars[2] == 0,
        "{bars:?} {text}"
    );
    assert!(
        rows[0].contains("2.0 kbit/s") && rows[0].contains("–"),
        "{text}"
    );
}

#[test]
fn the_agent_is_asked_about_a_filter_that_matches_no_row() {
    let mut state = state();
    press(&mut state, "/10.98.3.77");
    assert_eq!(state.request().missing.as_deref(), Some("10.98.3.77"));
    assert!(screen(&mut state).contains("asking the agent"));
    receive(&mut state);
    let text = screen(&mut state);
    for part in [
        "10.98.3.77 (www.example) is not in this list",
        "on eth0",
        "40 packets, exact",
        "Enter: its peers",
    ] {
        assert!(text.contains(part), "{text}");
    }
    press(&mut state, "\n\n");
    let ip = "10.98.3.77".parse().ok();
    assert_eq!(state.request().opened, ip.map(Opened::Node));
    // The agent is not asked if a row matches, or if the text is no question.
    for text in ["10.0.0.1", "office", "10.98.3."] {
        let mut state = self::state();
        press(&mut state, &format!("/{text}"));
        assert_eq!(state.request().missing, None, "{text}");
    }
    for text in ["10.9.0.0/16", "10.9.0.1 10.9.0.2", "10.9.0.1,*", "as64496"] {
        let mut state = self::state();
        press(&mut state, &format!("/{text}"));
        assert_eq!(state.request().missing.as_deref(), Some(text));
    }
}

#[test]
fn all_interfaces_are_in_one_view_and_nothing_is_added_up() {
    let mut state = state();
    press(&mut state, "a");
    assert_eq!(state.request().interfaces, Chosen::All);
    receive(&mut state);
    let wide = drawn(&mut state, (120, 24), true).0.join("\n");
    assert!(
        wide.contains("all interfaces (2)") && wide.contains("not added up: eth0"),
        "{wide}"
    );
    for name in ["eth0", "eth1"] {
        let row = |line: &str| {
            line.contains(name) && line.contains("10.0.0.1 ") && line.contains(" 500 ")
        };
        assert_eq!(wide.lines().filter(|line| row(line)).count(), 1, "{wide}");
    }
    // Peers are shown for the interface of the row.
    press(&mut state, "↓\n");
    let request = state.request();
    assert_eq!(request.interfaces, Chosen::One("eth1".into()));
    assert!(request.opened.is_some());
}

#[test]
fn the_wheel_scrolls_and_a_click_selects_and_opens() {
    use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
    let mut state = state();
    many(&mut state, 100);
    screen(&mut state);
    let mouse = |state: &mut State, kind, row| {
        let modifiers = KeyModifiers::NONE;
        keys::point(
            state,
            MouseEvent {
                kind,
                column: 5,
                row,
                modifiers,
            },
        );
        screen(state)
    };
    assert!(mouse(&mut state, MouseEventKind::ScrollDown, 9).contains("row 4 of 100"));
    let click = MouseEventKind::Down(MouseButton::Left);
    let text = mouse(&mut state, click, 10);
    assert!(text.lines().nth(10).unwrap().starts_with("> "), "{text}");
    assert!(
        mouse(&mut state, click, 23).contains("row 7 of 100"),
        "there is no row on this line"
    );
    mouse(&mut state, click, 10);
    let ip = "10.1.0.1".parse().ok();
    assert_eq!(state.request().opened, ip.map(Opened::Node));
}

/// The same sentence as in the report.
#[test]
fn an_empty_list_of_peers_says_how_many_no_address_exceeds() {
    let mut state = state();
    let at = LISTS.iter().position(|list| list.name == "fan_in").unwrap();
    state.tab = Tab::at(at).unwrap();
    let mut shown = |bounds: &[Option<u64>]| {
        let mut update = update(state.request(), [500, 400]);
        let of = |bound: &Option<u64>| {
            let lists = json!({"interface": "eth0", "window": "current",
                "fan_in_others_at_most": bound});
            serde_json::from_value(with(lists, window())).unwrap()
        };
        update.hitters = bounds.iter().map(of).collect();
        state.receive(Ok(update));
        screen(&mut state)
    };
    let known = shown(&[Some(23)]);
    let words = "no address stands out; none has more than 23 sources";
    assert!(known.contains(words), "{known}");
    // If packets are sampled there is no bound.
    let unknown = shown(&[None]);
    let words = "no packets in this window yet, or no address stands out";
    assert!(unknown.contains(words), "{unknown}");
}
