//! Services that are opened or searched for, and the tab of AS, which not every agent has.

use super::*;

fn opened(text: &str) -> Option<Opened> {
    Some(Opened::Service(text.parse().unwrap()))
}

#[test]
fn a_service_opens_its_pairs_and_esc_goes_back() {
    let mut state = state();
    press(&mut state, "5\n");
    assert_eq!(state.request().opened, opened("tcp/443"));
    assert!(screen(&mut state).contains("asking …"));
    receive(&mut state);
    let text = drawn(&mut state, (120, 24), true).0.join("\n");
    for part in [
        "1200 packets (120",
        "pairs of tcp/443",
        "in all    300 packets (25.00%), exact",
        "any other pair has 3 packets at most",
        "> 10.0.0.5",
        "10.0.0.6 (AS64496 Example, NL)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // An address of a pair is opened from there.
    press(&mut state, "\n");
    assert_eq!(
        state.request().opened,
        "10.0.0.5".parse().ok().map(Opened::Node)
    );
    receive(&mut state);
    let text = screen(&mut state);
    assert!(text.contains("peers of 10.0.0.5 (www.example)"), "{text}");
    assert!(text.contains("for udp/53 dns (7)"), "{text}");
    press(&mut state, "\x1b");
    assert!(screen(&mut state).contains("pairs of tcp/443"));
    press(&mut state, "\x1b");
    assert!(screen(&mut state).contains("> tcp/443 https"));
}

#[test]
fn a_service_is_opened_on_the_interface_of_its_row() {
    let mut state = state();
    press(&mut state, "a5");
    receive(&mut state);
    press(&mut state, "↓\n");
    let request = state.request();
    assert_eq!(request.interfaces, Chosen::One("eth1".into()));
    assert_eq!(request.opened, opened("tcp/443"));
}

#[test]
fn the_reason_for_a_missing_answer_is_shown_alone() {
    let mut state = state();
    press(&mut state, "5\n");
    let mut update = update(state.request(), [500, 400]);
    update.details = Some(Err("no window is complete yet".into()));
    state.receive(Ok(update));
    let text = screen(&mut state);
    assert!(text.contains("no window is complete yet"), "{text}");
    assert!(!text.contains("known by name"), "{text}");
}

#[test]
fn the_agent_is_asked_about_a_service_that_is_in_no_row() {
    for text in ["8443", "tcp/8443", "imap", "tcp/8443 https-alt", "icmp"] {
        let mut state = state();
        press(&mut state, &format!("/{text}"));
        assert_eq!(state.request().missing.as_deref(), Some(text));
    }
    for text in [
        "nonsense",
        "tcp/8443 nonsense",
        "imap nonsense more",
        "70000",
    ] {
        let mut state = state();
        press(&mut state, &format!("/{text}"));
        let missing = state.request().missing;
        let is_service = missing.is_some_and(|text| !text.contains(' '));
        assert!(!is_service, "{text}");
    }
    let mut state = state();
    press(&mut state, "/tcp/8443");
    receive(&mut state);
    let text = screen(&mut state);
    for part in [
        "tcp/8443 is not in this list",
        "on eth0",
        "300 packets (25.00%), exact",
        "Enter: its pairs",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    press(&mut state, "\n\n");
    assert_eq!(state.request().opened, opened("tcp/8443"));
}

#[test]
fn only_an_agent_with_as_numbers_has_a_tab_for_them() {
    let mut state = state();
    let text = screen(&mut state);
    assert!(text.contains("8 grp") && !text.contains("8 as"), "{text}");
    let wide = |state: &mut State| drawn(state, (160, 24), true).0.join("\n");
    assert!(wide(&mut state).contains("8 groups 9 interfaces "));
    press(&mut state, "0");
    assert_eq!(state.tab.place(), 0, "there is no tenth tab");

    let with_asns = |state: &State| {
        let mut update = update(state.request(), [500, 400]);
        let systems = json!({
            "interface": "eth0", "window": "current",
            "asns": [with(json!({"asn": 64496, "as_name": "Example"}), numbers(77, 0))],
        });
        update.hitters = vec![serde_json::from_value(with(systems, window())).unwrap()];
        update
    };
    let update = with_asns(&state);
    state.receive(Ok(update));
    let text = wide(&mut state);
    assert!(text.contains("8 asns 9 groups 0 interfaces "), "{text}");
    for (key, part) in [("8", "AS64496 Example"), ("9", "office"), ("0", "eth1")] {
        press(&mut state, key);
        assert!(screen(&mut state).contains(part), "{key}");
    }
    // Through all ten and back to the first.
    press(&mut state, "1\t\t\t\t\t\t\t");
    assert!(screen(&mut state).contains("AS64496 Example"));
    // The tab is removed after a reload without a database.
    receive(&mut state);
    assert!(screen(&mut state).contains("> 10.0.0.1"));
}
