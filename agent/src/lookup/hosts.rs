//! Names of addresses in `/etc/hosts`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Reads lines with an address and its names. The first name in the first line of an address
/// is used.
pub fn parse(text: &str) -> HashMap<IpAddr, Arc<str>> {
    let mut hosts = HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        if let Some((address, name)) = address.zip(words.next()) {
            hosts.entry(address).or_insert_with(|| name.into());
        }
    }
    hosts
}

/// Reads the addresses of name servers in a file like `/etc/resolv.conf`.
pub fn name_servers(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver")?;
        // A link-local address with an interface (`fe80::1%eth0`) is left out.
        words.next()?.parse().ok()
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_parsed() {
        let hosts = parse(
            "# 10.0.0.9 no\n10.0.0.1\tweb web.example # x\n::1 localhost\nx y\n10.0.0.1 b\n10.0.0.2\n",
        );
        let name = |text: &str| hosts.get(&text.parse().unwrap()).map(|name| &**name);
        assert_eq!(name("10.0.0.1"), Some("web"));
        assert_eq!(name("::1"), Some("localhost"));
        assert_eq!(hosts.len(), 2);
        let servers =
            name_servers("search x\nnameserver 10.0.0.53\n#nameserver 1.1.1.1\nnameserver ::1\n");
        assert_eq!(
            servers,
            [
                "10.0.0.53".parse::<IpAddr>().unwrap(),
                "::1".parse().unwrap()
            ]
        );
    }
}
