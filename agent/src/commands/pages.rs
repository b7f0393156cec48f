//! What the manual says of each command besides its options.

/// The rest of a manual page. An entry without a name is a sentence.
pub struct Page {
    /// Exit codes.
    pub exit: Entries,
    /// Files it reads or writes.
    pub files: Entries,
    /// Variables.
    pub environment: Entries,
    /// Command lines, and what they do.
    pub examples: Entries,
    /// Other pages.
    pub see: &'static [&'static str],
}

type Entries = &'static [(&'static str, &'static str)];

/// Codes of commands that read the configuration.
const CONFIGURED: Entries = &[
    ("0", "All went well."),
    (
        "1",
        "Something failed: a file that cannot be read, an interface that cannot be captured, a port in use.",
    ),
    ("2", "The command line is wrong."),
    (
        "78",
        "The configuration is wrong: the file, a variable, or what they name, like weights or certificates. systemd does not try again.",
    ),
];
/// Codes of all others.
const SIMPLE: Entries = &[
    ("0", "All went well."),
    ("1", "Something failed; standard error says what."),
    ("2", "The command line is wrong."),
];
/// Codes of what asks a running agent.
const ASKING: Entries = &[
    ("0", "The agent has answered."),
    (
        "1",
        "No agent answers, it does not know the interface, or no window is complete yet.",
    ),
    ("2", "The command line is wrong."),
];
const CONFIGURATION: (&str, &str) = (
    "/etc/crane-agent/crane-agent.toml",
    "The configuration of the service, which explains every key. Nothing reads it unless it is named with --config.",
);
const ANY_KEY: (&str, &str) = (
    "CRANE_SECTION_KEY",
    "Any key of the configuration, like CRANE_CAPTURE_SNAPLEN=128 or CRANE_WINDOW_LENGTH=10s; of keys above all sections CRANE_KEY, like CRANE_NAMES_FILE. Flags win over variables, variables over the file. Values are written as in the file. Variables that begin with CRANE_ and are no key are named in a warning and ignored.",
);
const CONFIGURED_BY: Entries = &[
    (
        "CRANE_CONFIG",
        "The configuration file, where --config does not name one.",
    ),
    ANY_KEY,
];
const NO_FILES: Entries = &[("", "None.")];
const NO_VARIABLES: Entries = &[("", "This command reads no variables.")];
const PROGRAM: &[&str] = &["crane-agent(1)"];

/// The page of a command; that of the program for any other name.
pub fn of(command: &str) -> Page {
    match command {
        "run" => RUN,
        "replay" => REPLAY,
        "eval" => EVAL,
        "train" => TRAIN,
        "query" => QUERY,
        "top" => TOP,
        "interfaces" => INTERFACES,
        "check-config" => CHECK_CONFIG,
        "sample" => SAMPLE,
        "man" => MAN,
        "completions" => COMPLETIONS,
        _ => ALL,
    }
}

const ALL: Page = Page {
    exit: CONFIGURED,
    files: &[CONFIGURATION],
    environment: CONFIGURED_BY,
    examples: &[
        ("crane-agent run", "Captures on all interfaces that are up."),
        (
            "crane-agent replay traffic.pcap",
            "Who was heavy in this file?",
        ),
        (
            "crane-agent top",
            "Who is heavy at the running agent? Live; q quits, ? explains keys.",
        ),
        (
            "crane-agent query --src 10.0.0.1 --dst 10.0.0.2",
            "What does it know of this pair?",
        ),
    ],
    see: &[
        "crane-agent-run(1)",
        "crane-agent-replay(1)",
        "crane-agent-top(1)",
        "crane-agent-query(1)",
        "pcap-filter(7)",
    ],
};

const RUN: Page = Page {
    exit: CONFIGURED,
    files: &[
        CONFIGURATION,
        (
            "/etc/systemd/system/crane-agent.service",
            "The unit that runs it as a service; that of a package is in /usr/lib/systemd/system.",
        ),
        (
            "/etc/crane-agent/web.yml",
            "Certificates and users, if export.web_config names it; read again when it changes.",
        ),
    ],
    environment: CONFIGURED_BY,
    examples: &[
        (
            "crane-agent run",
            "Captures on all interfaces that are up and serves metrics at 127.0.0.1:9732.",
        ),
        (
            "crane-agent run -i eth0 -i 'veth*' --window 30s",
            "Only on these, in windows of 30 seconds.",
        ),
        (
            "crane-agent run -c /etc/crane-agent/crane-agent.toml --log-format json",
            "As a service would.",
        ),
    ],
    see: &[
        "crane-agent(1)",
        "crane-agent-check-config(1)",
        "pcap-filter(7)",
    ],
};

const REPLAY: Page = Page {
    exit: CONFIGURED,
    files: &[CONFIGURATION],
    environment: CONFIGURED_BY,
    examples: &[
        (
            "crane-agent replay traffic.pcap",
            "Who was heavy in this file?",
        ),
        (
            "crane-agent replay traffic.pcapng.gz --filter 'net 10.0.0.0/8 and not port 22' --window 60s",
            "The same of some packets, minute by minute.",
        ),
        (
            "crane-agent replay captures --merge --both --ask 10.0.0.1,10.0.0.2 --ask 10.0.0.1",
            "A directory as one capture, with conversations, and what a pair and an address had.",
        ),
        (
            "crane-agent replay traffic.pcap --ask '10.0.0.0/8,*'",
            "And what was sent from this network.",
        ),
        (
            "crane-agent replay traffic.pcap --format json | jq .captures[0].top",
            "For programs.",
        ),
        (
            "crane-agent replay traffic.pcap --window 5s --report traffic.html",
            "A page to look at in a browser, or to attach to a ticket.",
        ),
        (
            "crane-agent replay captures --serve --loop --speed 1",
            "A directory, over and over, as if it were live.",
        ),
    ],
    see: &["crane-agent(1)", "pcap-filter(7)"],
};

const EVAL: Page = Page {
    exit: SIMPLE,
    files: NO_FILES,
    environment: NO_VARIABLES,
    examples: &[(
        "crane-agent eval stream.txt --memory 64KiB",
        "Every method on this stream, with 64 KiB each.",
    )],
    see: PROGRAM,
};

const TRAIN: Page = Page {
    exit: SIMPLE,
    files: NO_FILES,
    environment: NO_VARIABLES,
    examples: &[(
        "crane-agent train -o weights.safetensors",
        "Makes weights, the same for the same seed.",
    )],
    see: PROGRAM,
};

/// Says that colours are not wanted.
const NO_COLOR: (&str, &str) = ("NO_COLOR", "If set to anything, there are no colours.");

/// Variables of what asks a running agent.
const ASKED_BY: Entries = &[(
    "CRANE_PASSWORD",
    "The password that goes with --user, where --password-file does not name one.",
)];

const QUERY: Page = Page {
    exit: ASKING,
    files: &[
        (
            "/run/crane-agent/api.sock",
            "A socket that the agent serves at if export.socket says so; name it with --agent. It wants no password.",
        ),
        (
            "/etc/ssl/certs/ca-certificates.crt",
            "Whom to trust with the certificate of an agent at https://, where --ca does not say.",
        ),
    ],
    environment: ASKED_BY,
    examples: &[
        (
            "crane-agent query --src 10.0.0.1 --dst 10.0.0.2",
            "Packets and bytes from the one to the other.",
        ),
        (
            "crane-agent query --src 10.0.0.0/8 --dst 192.0.2.0/24 --both",
            "Packets between two networks, in both directions; a configured name or '*' will do as well.",
        ),
        (
            "crane-agent query --node 2001:db8::53 --window current --format json",
            "All that this node has sent and received in the window that is not over yet.",
        ),
        (
            "crane-agent query --node 10.0.0.1 --agent http://127.0.0.1:9732",
            "Of the agent at this address.",
        ),
    ],
    see: &["crane-agent(1)", "crane-agent-top(1)"],
};

const TOP: Page = Page {
    files: QUERY.files,
    exit: ASKING,
    environment: &[ASKED_BY[0], NO_COLOR],
    examples: &[
        (
            "crane-agent top",
            "Live: tabs, sort, filter, peers of an address. ? explains keys, q quits.",
        ),
        (
            "crane-agent top --once",
            "Prints who was heavy in the last complete window, as where the output is no terminal.",
        ),
        (
            "crane-agent top --by bytes -i eth0",
            "By bytes, on one interface.",
        ),
        (
            "crane-agent top --agent https://192.0.2.7:9732 --ca ca.crt --user alice --password-file pw",
            "Of an agent that is protected.",
        ),
    ],
    see: &["crane-agent(1)", "crane-agent-query(1)"],
};

const INTERFACES: Page = Page {
    exit: SIMPLE,
    files: NO_FILES,
    environment: NO_VARIABLES,
    examples: &[(
        "crane-agent interfaces",
        "Their names, whether they are up, their addresses.",
    )],
    see: &["crane-agent(1)", "crane-agent-run(1)"],
};

const CHECK_CONFIG: Page = Page {
    exit: &[
        (
            "0",
            "An agent can start with it, as far as that can be told without opening a device.",
        ),
        ("1", "A name in the filter is not known now."),
        ("2", "The command line is wrong."),
        ("78", "The configuration is wrong."),
    ],
    files: &[CONFIGURATION],
    environment: &[ANY_KEY],
    examples: &[(
        "crane-agent check-config /etc/crane-agent/crane-agent.toml",
        "Before the service is started again.",
    )],
    see: &["crane-agent(1)", "crane-agent-run(1)"],
};

const SAMPLE: Page = Page {
    exit: SIMPLE,
    files: NO_FILES,
    environment: NO_VARIABLES,
    examples: &[(
        "crane-agent sample sample.pcap",
        "Something to try `replay` with.",
    )],
    see: &["crane-agent(1)", "crane-agent-replay(1)"],
};

const MAN: Page = Page {
    exit: SIMPLE,
    files: &[(
        "/usr/local/share/man/man1",
        "Where `make install` puts the pages.",
    )],
    environment: NO_VARIABLES,
    examples: &[
        (
            "crane-agent man replay | man -l -",
            "Reads the page of `replay` where nothing is installed.",
        ),
        ("crane-agent man --dir pages", "Writes all pages."),
    ],
    see: &["crane-agent(1)", "man(1)"],
};

const COMPLETIONS: Page = Page {
    exit: SIMPLE,
    files: &[
        (
            "/usr/local/share/bash-completion/completions/crane-agent",
            "Where `make install` puts it for bash.",
        ),
        (
            "/usr/local/share/zsh/site-functions/_crane-agent",
            "For zsh.",
        ),
        (
            "/usr/local/share/fish/vendor_completions.d/crane-agent.fish",
            "For fish.",
        ),
    ],
    environment: NO_VARIABLES,
    examples: &[(
        "crane-agent completions bash > crane-agent.bash",
        "For `source crane-agent.bash`.",
    )],
    see: PROGRAM,
};
