//! Well-known ports of services.

/// Ports below this are system ports, which only servers use.
const SYSTEM: u16 = 1024;

/// Registered ports that operators commonly see, sorted.
#[rustfmt::skip]
const KNOWN: &[(u16, &str)] = &[
    (20, "ftp-data"), (21, "ftp"), (22, "ssh"), (23, "telnet"), (25, "smtp"), (43, "whois"),
    (49, "tacacs"), (53, "dns"), (67, "dhcp"), (68, "dhcp"), (69, "tftp"), (80, "http"),
    (88, "kerberos"), (110, "pop3"), (111, "rpcbind"), (113, "ident"), (119, "nntp"),
    (123, "ntp"), (135, "msrpc"), (137, "netbios-ns"), (138, "netbios-dgm"),
    (139, "netbios-ssn"), (143, "imap"), (161, "snmp"), (162, "snmp-trap"), (177, "xdmcp"),
    (179, "bgp"), (389, "ldap"), (427, "slp"), (443, "https"), (445, "smb"),
    (464, "kpasswd"), (465, "smtps"), (500, "ike"), (514, "syslog"), (515, "lpd"),
    (520, "rip"), (521, "ripng"), (546, "dhcpv6"), (547, "dhcpv6"), (548, "afp"),
    (554, "rtsp"), (587, "submission"), (623, "ipmi"), (631, "ipp"), (636, "ldaps"),
    (646, "ldp"), (853, "dns-tls"), (873, "rsync"), (902, "vmware"), (989, "ftps-data"),
    (990, "ftps"), (993, "imaps"), (995, "pop3s"), (1080, "socks"), (1194, "openvpn"),
    (1433, "mssql"), (1434, "mssql-browser"), (1521, "oracle"), (1701, "l2tp"),
    (1723, "pptp"), (1812, "radius"), (1813, "radius-acct"), (1883, "mqtt"), (1900, "ssdp"),
    (1935, "rtmp"), (2049, "nfs"), (2055, "netflow"), (2181, "zookeeper"), (2375, "docker"),
    (2376, "docker-tls"), (2377, "swarm"), (2379, "etcd"), (2380, "etcd-peer"),
    (3128, "squid"), (3260, "iscsi"), (3268, "ldap-gc"), (3269, "ldaps-gc"),
    (3306, "mysql"), (3389, "rdp"), (3478, "stun"), (3690, "svn"), (3784, "bfd"),
    (4222, "nats"), (4369, "epmd"), (4500, "ipsec-nat"), (4739, "ipfix"), (4789, "vxlan"),
    (5004, "rtp"), (5005, "rtcp"), (5060, "sip"), (5061, "sips"), (5222, "xmpp"),
    (5269, "xmpp-server"), (5349, "stuns"), (5353, "mdns"), (5355, "llmnr"),
    (5432, "postgresql"), (5555, "adb"), (5601, "kibana"), (5671, "amqps"), (5672, "amqp"),
    (5683, "coap"), (5684, "coaps"), (5900, "vnc"), (5938, "teamviewer"), (5984, "couchdb"),
    (5985, "winrm"), (5986, "winrms"), (6000, "x11"), (6081, "geneve"), (6343, "sflow"),
    (6379, "redis"), (6443, "kubernetes"), (6514, "syslog-tls"), (6633, "openflow-old"),
    (6653, "openflow"), (6667, "irc"), (6697, "ircs"), (6881, "bittorrent"),
    (7000, "cassandra"), (7474, "neo4j"), (7687, "bolt"), (8000, "http-alt"),
    (8008, "http-alt"), (8080, "http-proxy"), (8081, "http-alt"), (8086, "influxdb"),
    (8125, "statsd"), (8140, "puppet"), (8200, "vault"), (8300, "consul-rpc"),
    (8301, "consul"), (8302, "consul-wan"), (8443, "https-alt"), (8472, "vxlan-linux"),
    (8500, "consul-http"), (8883, "mqtts"), (8888, "http-alt"), (9000, "http-alt"),
    (9042, "cql"), (9090, "prometheus"), (9091, "pushgateway"), (9092, "kafka"),
    (9093, "alertmanager"), (9100, "node-exporter"), (9200, "elasticsearch"),
    (9300, "elasticsearch-peer"), (9418, "git"), (9443, "https-alt"), (9732, "crane-agent"),
    (9993, "zerotier"), (10050, "zabbix-agent"), (10051, "zabbix"), (10250, "kubelet"),
    (11211, "memcached"), (15672, "rabbitmq-http"), (25565, "minecraft"),
    (26257, "cockroachdb"), (27015, "steam"), (27017, "mongodb"), (32400, "plex"),
    (41641, "tailscale"), (50051, "grpc"), (51820, "wireguard"), (61616, "activemq"),
];

/// One bit per registered port, because every packet looks up two of them.
static REGISTERED: [u64; 1024] = {
    let mut bits = [0; 1024];
    let mut at = 0;
    while at < KNOWN.len() {
        let port = KNOWN[at].0;
        bits[port as usize / 64] |= 1 << (port % 64);
        at += 1;
    }
    bits
};

/// Whether a port is a system port or registered.
#[inline]
pub fn is_registered(port: u16) -> bool {
    port < SYSTEM || REGISTERED[usize::from(port) / 64] >> (port % 64) & 1 == 1
}

/// Returns the name of the service of a port.
pub fn name(port: u16) -> Option<&'static str> {
    let at = KNOWN.binary_search_by_key(&port, |(port, _)| *port).ok()?;
    Some(KNOWN[at].1)
}

/// Returns the ports of the service with a name, lowest first.
pub fn ports(name: &str) -> impl Iterator<Item = u16> {
    let known = KNOWN.iter().filter(move |(_, known)| *known == name);
    known.map(|(port, _)| *port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ports_are_registered_and_have_names() {
        assert!(KNOWN.is_sorted_by(|one, other| one.0 < other.0));
        for (port, name) in KNOWN {
            assert!(is_registered(*port));
            assert_eq!(super::name(*port), Some(*name));
        }
        assert!(is_registered(0) && is_registered(1023));
        assert!(!is_registered(1024) && !is_registered(u16::MAX));
        assert_eq!(name(1024), None);
    }
}
