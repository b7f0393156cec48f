// Formats numbers, times and intervals.

const NB = '\u00a0';

/** A number with three significant digits. */
function digits(n) {
  if (n >= 99.95) return String(Math.round(n));
  return n >= 9.995 ? n.toFixed(1) : n.toFixed(2);
}

function scaled(n, base, units) {
  let at = 0;
  while (n >= base * 0.9995 && at < units.length - 1) {
    n /= base;
    at += 1;
  }
  const number = at === 0 ? String(Math.round(n)) : digits(n);
  return [number, units[at]];
}

/** A number with all digits: 18,204. */
function whole(n) {
  return Math.round(n).toLocaleString('en-US');
}

/** A number with all digits if it is small, otherwise with three digits: 1,234 or 182 k. */
function short(n) {
  if (n < 10000) return whole(n);
  return scaled(n, 1000, ['', 'k', 'M', 'G', 'T']).join(NB);
}

function bytesText(n) {
  return scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']).join(NB);
}

function bitsText(n) {
  return scaled(n, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']).join(NB);
}

function percent(part, all) {
  if (!(all > 0)) return '–';
  const share = (100 * part) / all;
  if (share > 0 && share < 0.1) return `<${NB}0.1${NB}%`;
  return `${share.toFixed(1)}${NB}%`;
}

/** A duration: 42 s, 3 min 5 s. */
function lasting(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)}${NB}ms`;
  if (seconds < 10 && seconds % 1 > 0.05) return `${seconds.toFixed(1)}${NB}s`;
  const s = Math.round(seconds);
  if (s < 120) return `${s}${NB}s`;
  if (s < 7200) return `${Math.floor(s / 60)}${NB}min` + (s % 60 ? ` ${s % 60}${NB}s` : '');
  return `${Math.floor(s / 3600)}${NB}h` + (s % 3600 ? ` ${Math.floor((s % 3600) / 60)}${NB}min` : '');
}

/** The time zone of all times; the local one if undefined. */
let zone;

/** Shows times in UTC, because a report may be read in another time zone than it was captured in. */
function showUtc() {
  zone = 'UTC';
}

/** The time zone after a time. */
function zoneText() {
  return zone ? `${NB}${zone}` : '';
}

function clock(unix, short, timeZone = zone) {
  const options = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone };
  if (!short) options.second = '2-digit';
  return new Date(unix * 1000).toLocaleTimeString('en-GB', options);
}

function day(unix, timeZone = zone) {
  // The Swedish locale writes year-month-day.
  return new Date(unix * 1000).toLocaleDateString('sv-SE', { timeZone });
}

/** Start and end: in UTC, followed by local time if it differs. */
function span(start, end) {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const one = (timeZone, withDay) => {
    const until = day(end, timeZone) === day(start, timeZone) ? '' : `${day(end, timeZone)} `;
    const from = withDay || until ? `${day(start, timeZone)} ` : '';
    return `${from}${clock(start, false, timeZone)}–${until}${clock(end, false, timeZone)}`;
  };
  const utc = `${one('UTC', true)}${NB}UTC`;
  const local = one(here, day(start, here) !== day(start, 'UTC'));
  const same = one(here, true) === one('UTC', true);
  return same ? utc : `${utc} (local: ${local}, ${here})`;
}

/** How numbers of bytes, packets and peers are shown. */
const MEASURES = {
  bytes: {
    name: 'bytes', value: (r) => r.bytes, low: (r) => r.bytes_low, high: (r) => r.bytes_high,
    least: (r) => r.bytes_at_least, most: (r) => r.bytes_at_most,
    text: bytesText, rate: (perSecond) => bitsText(8 * perSecond), speed: (rate) => rate.bits_per_second / 8, of: 'of all bytes',
  },
  packets: {
    name: 'packets', value: (r) => r.packets, low: (r) => r.low, high: (r) => r.high,
    least: (r) => r.at_least, most: (r) => r.at_most,
    text: short, rate: (perSecond) => `${short(perSecond)} packets/s`, speed: (rate) => rate.packets_per_second, of: 'of all packets',
  },
  peers: {
    name: 'peers', value: (r) => r.peers, low: (r) => r.low, high: (r) => r.high,
    least: (r) => (r.exact ? r.peers : null), most: (r) => (r.exact ? r.peers : null), text: whole, rate: () => '', of: '',
  },
};

/** Whether the number is exact. A narrow interval alone does not make it exact. */
function isExact(measure, row) {
  const least = measure.least(row);
  return least !== null && least !== undefined && least === measure.most(row);
}

function isPoint(measure, row) {
  return measure.low(row) === measure.high(row);
}

/** The accuracy of a number: `exact`, or the 90 % interval. */
function accuracyText(measure, row) {
  return isExact(measure, row) ? 'exact' : `90 % sure: ${intervalText(measure, row).slice(1, -1) || measure.text(measure.low(row))}`;
}

/** The 90 % interval; empty if both ends are equal. */
function intervalText(measure, row) {
  if (isPoint(measure, row)) return '';
  const [low, high] = [measure.text(measure.low(row)), measure.text(measure.high(row))];
  const [a, unit] = low.split(NB);
  const [b, other] = high.split(NB);
  if (low === high) return `(≈${NB}${low})`;
  return unit === other ? `(${a}–${b}${unit ? NB + unit : ''})` : `(${low}–${high})`;
}

/** The search for the service of a row, or for a protocol with all its ports. */
function serviceQuery({ protocol, port }) {
  if (port === undefined) return protocol;
  if (port !== null) return `${protocol}/${port}`;
  return ['tcp', 'udp', 'sctp'].includes(protocol) ? `${protocol}/none` : protocol;
}

function serviceText(service) {
  if (!service) return '';
  const port = service.port;
  const known = port === null || port === undefined ? '' : PORTS[port];
  const text = port === null || port === undefined ? service.protocol : `${service.protocol}/${port}`;
  return known ? `${text} ${known}` : text;
}

/** Names of well-known ports. */
const PORTS = {
  20: 'ftp-data', 21: 'ftp', 22: 'ssh', 23: 'telnet', 25: 'smtp', 53: 'dns', 67: 'dhcp', 68: 'dhcp',
  80: 'http', 88: 'kerberos', 110: 'pop3', 123: 'ntp', 135: 'msrpc', 139: 'netbios', 143: 'imap',
  161: 'snmp', 179: 'bgp', 389: 'ldap', 443: 'https', 445: 'smb', 465: 'smtps', 500: 'ike',
  514: 'syslog', 587: 'submission', 636: 'ldaps', 853: 'dns-tls', 873: 'rsync', 993: 'imaps',
  995: 'pop3s', 1194: 'openvpn', 1433: 'mssql', 1521: 'oracle', 2049: 'nfs', 3306: 'mysql',
  3389: 'rdp', 4789: 'vxlan', 5060: 'sip', 5353: 'mdns', 5432: 'postgres', 5672: 'amqp',
  5900: 'vnc', 6379: 'redis', 6443: 'kubernetes', 8080: 'http-alt', 8443: 'https-alt',
  9090: 'prometheus', 9092: 'kafka', 9200: 'elasticsearch', 11211: 'memcached', 27017: 'mongodb',
  51820: 'wireguard',
};

/** The seconds of a window in which packets were seen, which rates refer to. */
function seenSeconds(window) {
  return window ? window.seconds - (window.unseen_seconds || 0) : 0;
}
