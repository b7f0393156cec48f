//! Every key of the configuration, declared once. See [`section`](super::section) for what
//! follows from a declaration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crane_model::DeviceChoice;
use serde::{Deserialize, Serialize};

use super::length::WindowLength;
use super::pattern::Pattern;
use super::section::{Key, Only, Reload, section};
use super::size::Size;
use super::{Anonymise, Decap, Direction, NamedNetwork, Profile, Watched, values};
use crate::lookup::database::Databases;
use crate::traffic::names::Names;

section! {
    "" Config {
        /// Networks can have names. Packets are then counted exactly for each pair of
        /// names, as crane_group_packets_total and crane_group_bytes_total, and every list
        /// shows names beside addresses. An address has the name of the longest prefix that
        /// contains it, or "other" if there is none. A prefix may be named "other" to exclude
        /// it from a larger network. Addresses are used as they are in packets:
        /// ::ffff:10.0.0.0/104 names IPv6 addresses, 10.0.0.0/8 only IPv4.
        /// At the end of this file, or anywhere below these keys:
        /// [[names]]
        /// prefix = "10.1.0.0/16"
        /// name = "office"
        /// In the place of a prefix an entry can have asn = 64496, for all networks of this AS by
        /// lookup.asn; a prefix with a name wins over the AS of its addresses.
        /// A file with more names, with lines like 10.1.0.0/16,office (1000000 lines at
        /// most; a first line prefix,name, empty lines and lines that begin with # are
        /// ignored). As variables: CRANE_NAMES_FILE, CRANE_NAMES_LIMIT.
        #[reload(Names)]
        #[example("\"/etc/crane-agent/names.csv\"")]
        names_file: Option<PathBuf> = None,
        /// Most different names (1 to 255), besides "other". Each pair of names may become
        /// two series per interface.
        #[serde(deserialize_with = "values::in_range::<_, usize, 1, 255>")]
        #[reload(Names)]
        names_limit: usize = 64,
        ..
        /// `[[names]]`
        #[serde(skip_serializing, deserialize_with = "values::named")]
        names: Vec<NamedNetwork>,
        /// All names, of `[[names]]` and of the file. `None` if there are none.
        #[serde(skip)]
        networks: Option<Arc<Names>>,
        /// Contents of the files of `[lookup]`.
        #[serde(skip)]
        databases: Arc<Databases>,
        capture: Capture,
        window: Window,
        sketch: Sketch,
        export: Export,
        state: State,
        lookup: Lookup,
    }
}

section! {
    "capture" Capture {
        /// Interfaces to capture: names, globs ("eth*") or regular expressions
        /// ("/^veth[0-9]+$/"). Empty: all that are up, without loopback; loopback alone
        /// if there is no other. Interfaces are captured when they appear; the agent
        /// waits for a name that does not exist. A packet that crosses a bridge, a bond or a veth
        /// pair is seen on each of its interfaces: choose one of them.
        #[serde(deserialize_with = "values::patterns")]
        #[reload(Interfaces)]
        #[only(Live)]
        interfaces: Vec<Pattern> = Vec::new(),
        /// Interfaces not to capture, written in the same way.
        #[serde(deserialize_with = "values::patterns")]
        #[reload(Interfaces)]
        #[only(Live)]
        exclude: Vec<Pattern> = Vec::new(),
        /// Only packets that match this filter, in tcpdump's language; all others are not
        /// part of the capture, live or in a file (`replay --filter` overrides it). Names
        /// in it are looked up whenever an interface is opened; addresses need no name
        /// server.
        #[reload(Captures)]
        #[example("\"not port 22\"")]
        filter: Option<String> = None,
        /// Bytes captured of each packet (64 to 32767). Addresses are in the first few
        /// dozen; lengths are those on the wire whatever is captured.
        #[serde(deserialize_with = "values::in_range::<_, u16, 64, 32767>")]
        #[reload(Captures)]
        #[only(Live)]
        snaplen: u16 = 192,
        /// Capture packets for other machines, too.
        #[serde(deserialize_with = "values::flag")]
        #[reload(Captures)]
        #[only(Live)]
        promiscuous: bool = true,
        /// Decode one packet in this many (1 to 1000000), chosen at random; the others are
        /// counted as ignored. Estimates are scaled up.
        #[serde(deserialize_with = "values::in_range::<_, u32, 1, 1000000>")]
        #[reload(Window)]
        sample: u32 = 1,
        /// Buffers of all interfaces together: each gets 256 KiB to 64 MiB of it in
        /// the kernel, and a quarter of its share at most for its ring. They are divided
        /// again when interfaces appear or vanish.
        #[serde(deserialize_with = "values::size::<_, { 1 << 20 }, { 16 << 30 }>")]
        #[reload(Captures)]
        buffer_total: Size = Size(128 << 20),
        /// Slots for packets that wait for the sketch, per interface at most (1024 to
        /// 16777216); an IPv4 packet takes one, an IPv6 packet two. When the ring is full,
        /// new packets are dropped and counted.
        #[serde(deserialize_with = "values::in_range::<_, usize, 1024, 16777216>")]
        #[reload(Ring)]
        ring_slots: usize = 65536,
        /// Which addresses of tunnelled packets count (VXLAN, GRE, IP-in-IP): those of the
        /// tunnel, "outer", or of the innermost packet, "inner". The innermost header is
        /// further back in the packet: snaplen has to include it.
        #[serde(deserialize_with = "values::decap")]
        #[reload(Packets)]
        decap: Decap = Decap::Outer,
        /// Whether IPv6 packets are decoded. If not, they are counted as ignored.
        #[serde(deserialize_with = "values::flag")]
        #[reload(Packets)]
        ipv6: bool = true,
        /// Only incoming packets, "in", or outgoing packets, "out"; "both" for all. In files
        /// only Linux cooked captures and PPP with a direction have it; packets of other
        /// files always count.
        #[serde(deserialize_with = "values::direction")]
        #[reload(Captures)]
        direction: Direction = Direction::Both,
    }
}

section! {
    "window" Window {
        /// Heavy hitters and estimates are those of the last complete window
        /// ("100ms" to "366d"). At least as long as Prometheus' scrape interval: a window
        /// that begins and ends between two scrapes is never seen.
        #[serde(deserialize_with = "values::window_length")]
        #[reload(Window)]
        #[only(Live)]
        length: WindowLength = WindowLength::seconds(60),
    }
}

section! {
    "sketch" Sketch {
        /// "packed": narrow cells for real traffic; "paper": dense layers of 16 KiB each,
        /// the published sketch, to compare with.
        #[serde(deserialize_with = "values::profile")]
        #[reload(Window)]
        profile: Profile = Profile::Packed,
        /// "auto", "cpu", "cpu-tensor" or "cuda:N".
        #[serde(deserialize_with = "values::device", serialize_with = "values::as_text")]
        #[reload(Restart)]
        device: DeviceChoice = DeviceChoice::Auto,
        /// Weights to use instead of those in the program.
        #[reload(Window)]
        #[example("\"/etc/crane-agent/packed.safetensors\"")]
        weights: Option<PathBuf> = None,
        /// Memory for the sketches of one interface at most, and of all together (128KiB
        /// or more, "paper" 186KiB). Memory is allocated when it is needed: a window starts with
        /// 16KiB and doubles when it is full, and an idle interface stays there; 58KiB are set
        /// aside for each. Half of it is for the last complete window. Of a window, an eighth is
        /// for fan-out and fan-in (the number of peers of each address; 6KiB each at least, and no
        /// more than 64KiB each or a 32nd of the window), a 32nd for services; of the rest, 42
        /// percent are for the services of pairs, what is left for pairs, sources and destinations.
        /// 7MiB count 50,000 IPv4 pairs a window exactly, with their services, and any number of
        /// pairs with intervals. Where they do not fit, a sixteenth of what pairs have is for a
        /// sample of packets, by which networks are estimated.
        #[serde(deserialize_with = "values::size::<_, { 128 << 10 }, { 1 << 30 }>")]
        #[reload(Window)]
        memory: Size = Size(7 << 20),
        #[serde(deserialize_with = "values::size::<_, { 128 << 10 }, { 64 << 30 }>")]
        #[reload(Window)]
        memory_total: Size = Size(256 << 20),
        /// Share of that rest for sources and destinations, in percent (10 to 90); what is
        /// left is for pairs.
        #[serde(deserialize_with = "values::in_range::<_, u8, 10, 90>")]
        #[reload(Window)]
        node_percent: u8 = 31,
        /// Packets of a full batch (1 to 65536).
        #[serde(deserialize_with = "values::in_range::<_, usize, 1, 65536>")]
        #[reload(Ring)]
        batch: usize = 4096,
        /// How long a packet waits for a full batch, in milliseconds (1 to 10000).
        #[serde(deserialize_with = "values::in_range::<_, u64, 1, 10000>")]
        #[reload(Packets)]
        #[only(Lingering)]
        linger_ms: u64 = 100,
    }
}

section! {
    "export" Export {
        /// Address and port of the HTTP server, or a list of them:
        /// ["127.0.0.1:9732", "[::1]:9732"]. Without web_config there is no access
        /// control: keep them on a trusted network.
        #[serde(deserialize_with = "values::listen", serialize_with = "values::one_or_list")]
        #[reload(Listeners)]
        #[only(Serving)]
        listen: Vec<SocketAddr> = vec![SocketAddr::from(([127, 0, 0, 1], 9732))],
        /// A unix socket that serves the same, without TLS and passwords: the permissions of
        /// the file control access.
        #[reload(Listeners)]
        #[only(Serving)]
        #[example("\"/run/crane-agent/api.sock\"")]
        socket: Option<PathBuf> = None,
        /// A file that protects these addresses, in the format of the Prometheus exporter
        /// toolkit (https://prometheus.io/docs/prometheus/latest/configuration/https/):
        /// tls_server_config, basic_auth_users, headers. It is read again when it or a
        /// certificate changes.
        /// A change with errors, or one that would lower the protection, is rejected. Lowering it
        /// takes a reload, and a file that says so (tls_server_config: {}, basic_auth_users: {}).
        #[reload(Protection)]
        #[only(Serving)]
        #[example("\"/etc/crane-agent/web.yml\"")]
        web_config: Option<PathBuf> = None,
        /// Host names accepted over loopback, besides localhost and the names of this machine.
        /// Others are rejected, because a web page could otherwise read everything through a name
        /// of its own (DNS rebinding). Add the name that a proxy passes on. Other addresses accept
        /// any name.
        #[serde(deserialize_with = "values::hosts")]
        #[reload(Requests)]
        #[only(Serving)]
        #[example("[\"agent.example.org\"]")]
        hosts: Vec<String> = Vec::new(),
        /// What metrics and answers show instead of addresses: "none" hides nothing, "prefix"
        /// shows networks (10.1.2.0 for 10.1.2.3, 48 bits of IPv6) and adds up the addresses of
        /// each, "keyed" shows pseudonyms that change with every start.
        #[serde(deserialize_with = "values::anonymise")]
        #[reload(View)]
        #[only(Serving)]
        anonymise: Anonymise = Anonymise::None,
        /// Heavy hitters exported by packets and by bytes, each (1 to 1000), of pairs,
        /// sources and destinations; and as many addresses with the most peers, in each
        /// direction.
        #[serde(deserialize_with = "values::in_range::<_, usize, 1, 1000>")]
        #[reload(View)]
        top: usize = 10,
        /// Pairs that are always exported, heavy or not: crane_flow_estimate_packets and
        /// crane_flow_estimate_bytes, and the ends of their 90 % intervals, …_low and …_high;
        /// six series per pair and interface.
        #[serde(deserialize_with = "values::watched")]
        #[reload(View)]
        #[only(Serving)]
        #[example("[{ src = \"10.0.0.1\", dst = \"10.0.0.2\" }]")]
        watch: Vec<Watched> = Vec::new(),
        /// A file to which the lists of each window are appended when it ends: a line of JSON for the
        /// window and for each listed pair, conversation, address and service. The service can write
        /// to /var/log/crane-agent. A slow or full disk costs lines
        /// (crane_export_lines_lost_total), never packets. Not set or "": none.
        #[reload(Lines)]
        #[only(Live)]
        #[example("\"/var/log/crane-agent/windows.jsonl\"")]
        jsonl: Option<PathBuf> = None,
        /// Most bytes of this file (1MiB to 1TiB). Before it becomes larger it is renamed to
        /// windows.jsonl.1, the one before to windows.jsonl.2 and so on.
        #[serde(deserialize_with = "values::size::<_, { 1 << 20 }, { 1 << 40 }>")]
        #[reload(Lines)]
        #[only(Live)]
        jsonl_size: Size = Size(64 << 20),
        /// Number of files, with the one that is written to (1 to 1000); the oldest is removed.
        #[serde(deserialize_with = "values::in_range::<_, usize, 1, 1000>")]
        #[reload(Lines)]
        #[only(Live)]
        jsonl_files: usize = 10,
    }
}

section! {
    "state" State {
        /// Where the current window of each interface and the key are saved, so that a restart
        /// continues them. The files contain addresses; only the agent's user can read them.
        /// Not set: the directory of the service manager (STATE_DIRECTORY, as in the unit of
        /// this package), otherwise none. "" turns it off.
        #[reload(Restart)]
        #[only(Live)]
        #[example("\"/var/lib/crane-agent\"")]
        directory: Option<PathBuf> = None,
        /// Pause between two saves ("100ms" to "366d"); a stop saves as well. Packets after
        /// the last save are lost if the agent is killed.
        #[serde(deserialize_with = "values::window_length")]
        #[reload(Saving)]
        #[only(Live)]
        interval: WindowLength = WindowLength::seconds(10),
    }
}

section! {
    "lookup" Lookup {
        /// Files in the MaxMind DB format with the AS number and the country of addresses, in the
        /// layout of GeoLite2 (also DB-IP) or IPinfo; one file may serve both. They are read
        /// completely at the start and on a reload (256MiB at most), and take about as much memory
        /// as the file, which the log names. Lists and answers then show asn, as_name and country
        /// beside addresses, `query --src AS64496` asks for an AS, and the heaviest are exported as
        /// crane_top_asn_packets and crane_top_asn_bytes. With anonymise = "prefix" they are those
        /// of the network's first address; with "keyed" there are none.
        #[reload(Databases)]
        #[example("\"/etc/crane-agent/GeoLite2-ASN.mmdb\"")]
        asn: Option<PathBuf> = None,
        #[reload(Databases)]
        #[example("\"/etc/crane-agent/GeoLite2-Country.mmdb\"")]
        country: Option<PathBuf> = None,
        /// Look up host names of the addresses in lists and answers, in /etc/hosts and by DNS. That
        /// tells name servers which addresses are looked at. Answers never wait for it: a name is
        /// shown from the next answer on. 100 questions per second at most; names are kept for an
        /// hour. Never with anonymise. Also in a replay, whose report waits 10 s at most for names.
        #[serde(deserialize_with = "values::flag")]
        #[reload(HostNames)]
        resolve: bool = false,
        /// Name servers, like ["10.0.0.53", "[::1]:5353"]. Empty: those of /etc/resolv.conf.
        #[serde(deserialize_with = "values::name_servers")]
        #[reload(HostNames)]
        name_servers: Vec<SocketAddr> = Vec::new(),
    }
}

/// The keys of all sections, in the order of the commented file.
const SECTIONS: [&[Key]; 7] = [
    Config::KEYS,
    Capture::KEYS,
    Window::KEYS,
    Sketch::KEYS,
    Export::KEYS,
    State::KEYS,
    Lookup::KEYS,
];

/// All keys.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.into_iter().flatten()
}

impl Config {
    /// The keys with other values than in `before`.
    pub(super) fn changed_keys(&self, before: &Self) -> impl Iterator<Item = &'static Key> {
        self.changed(before)
            .chain(self.capture.changed(&before.capture))
            .chain(self.window.changed(&before.window))
            .chain(self.sketch.changed(&before.sketch))
            .chain(self.export.changed(&before.export))
            .chain(self.state.changed(&before.state))
            .chain(self.lookup.changed(&before.lookup))
    }
}
