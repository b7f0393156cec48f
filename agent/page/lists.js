// Lists of the heaviest: bar, share, value and interval.

/** Host name, AS and country of an address as text. `end` is the prefix of the fields of a pair, like `src_`. */
function knownText(row, end = '') {
  const [host, asn, asName, country] = ['host', 'asn', 'as_name', 'country'].map((field) => row[end + field]);
  return [host, asn ? `AS${asn}${asName ? ` ${asName}` : ''}` : '', country].filter(Boolean).join(', ');
}

/** An address with the name of its network, and with its host name or AS. */
function address(row, field, end = '') {
  const [ip, name, known] = [row[field], row[`${end}name`], knownText(row, end)];
  const tags = [name && name !== 'other' ? name : '', row[`${end}host`] || row[`${end}as_name`] || ''].filter(Boolean);
  return el('a', { class: 'address', href: `#q=${encodeURIComponent(ip)}`, 'data-query': ip, title: [name ? `${ip} in ${name}` : ip, known].filter(Boolean).join(': ') },
    el('span', { class: 'ip' }, ip), tags.map((tag) => el('span', { class: 'tag' }, tag)));
}

const ROWS = {
  pairs: {
    key: (row) => `${row.src} ${row.dst}`,
    query: (row) => `${row.src} → ${row.dst}`,
    label: (row) => [
      address(row, 'src', 'src_'), el('span', { class: 'arrow', 'aria-hidden': 'true' }, '→'), address(row, 'dst', 'dst_'),
    ],
    known: (row) => knownText(row, 'src_') + knownText(row, 'dst_'),
    detail: (row) => serviceText(row.service),
  },
  conversations: {
    layout: 'pairs',
    key: (row) => `${row.a} ${row.b}`,
    query: (row) => `${row.a} → ${row.b}`,
    label: (row) => [
      address(row, 'a', 'a_'), el('span', { class: 'arrow', 'aria-hidden': 'true' }, '⇄'), address(row, 'b', 'b_'),
    ],
    known: (row) => knownText(row, 'a_') + knownText(row, 'b_'),
    detail: (row) => serviceText(row.service),
    /** The sum of both directions. */
    numbers: (row) => {
      const ways = [row.a_to_b, row.b_to_a].filter(Boolean);
      const sum = (field) => ways.reduce((total, way) => (total === null || way[field] === null ? null : total + way[field]), 0);
      return { ...row, ...Object.fromEntries(Object.keys(row.a_to_b).map((field) => [field, sum(field)])) };
    },
  },
  nodes: {
    key: (row) => row.ip,
    query: (row) => row.ip,
    label: (row) => [address(row, 'ip')],
    known: (row) => knownText(row),
    detail: () => '',
  },
  services: {
    key: (row) => serviceText(row),
    query: (row) => serviceQuery(row),
    label: (row) => [el('a', { class: 'address', href: `#q=${encodeURIComponent(serviceQuery(row))}`, 'data-query': serviceQuery(row) },
      el('span', { class: 'ip' }, serviceText(row)))],
    known: () => '',
    detail: () => '',
  },
  asns: {
    key: (row) => String(row.asn),
    query: (row) => `AS${row.asn}`,
    label: (row) => [el('span', { class: 'ip' }, `AS${row.asn}`), row.as_name ? el('span', { class: 'tag' }, row.as_name) : ''],
    known: () => '',
    detail: () => '',
  },
};

/** Rates of the last seconds. The agent gives null if a rate is not known yet or not reliable. */
const SPEEDS = [['rate_10s', 'in the last 10 s'], ['rate_2s', 'in the last 2 s']];

function speedText(measure, rate) {
  return rate ? measure.rate(measure.speed(rate)) : rate === null ? '–' : '';
}

/** A list whose rows do not move while the pointer is on it. */
class HeavyList {
  constructor(kind, title) {
    this.kind = ROWS[kind];
    this.list = el('ol', { class: `rows ${this.kind.layout || kind}`, 'aria-label': title });
    this.empty = el('p', { class: 'empty', hidden: true });
    this.more = el('button', { type: 'button', class: 'more', hidden: true, onclick: () => {
      this.shown = Infinity;
      this.again();
    } });
    this.node = el('div', { class: 'list' }, title ? el('h3', {}, title) : '', this.list, this.more, this.empty);
    this.shown = matchMedia('(max-width: 760px)').matches ? 15 : 30;
  }

  rename(title) {
    setText(this.node.querySelector('h3'), title);
    set(this.list, 'aria-label', title);
  }

  /** Updates the rows. Shares refer to `all`; there are none if it is 0. */
  update(rows, measure, all, seconds, emptyText) {
    this.again = () => this.update(rows, measure, all, seconds, emptyText);
    const left = rows.length - this.shown;
    show(this.more, left > 0);
    setText(this.more, `${left} more`);
    rows = rows.slice(0, this.shown);
    const most = Math.max(1, ...rows.map((row) => measure.value(row)));
    const widest = Math.max(most, ...rows.map((row) => Math.min(measure.high(row), 1.15 * most)));
    this.list.classList.toggle('exact', rows.every((row) => isPoint(measure, row)));
    this.list.classList.toggle('still', !(seconds > 0));
    this.list.classList.toggle('rated', rows.some((row) => row.rate_2s !== undefined));
    // Rows keep their positions under the pointer, unless the list is of another interface or window.
    const hold = isHeld(this.list) && this.subject === subject;
    this.subject = subject;
    keyed(this.list, rows, this.kind.key, (row) => this.create(row),
      (node, row) => this.fill(node, row, measure, widest, all, seconds), hold);
    show(this.empty, rows.length === 0);
    setText(this.empty, rows.length === 0 ? emptyText || 'Nothing here yet.' : '');
  }

  create(row) {
    const query = this.kind.query(row);
    const part = (name) => el('span', { class: name });
    const who = el('span', { class: 'who' }, this.kind.label(row), el('span', { class: 'detail' }));
    const node = el('li', {}, who,
      el('span', { class: 'track', 'aria-hidden': 'true' }, part('fill'), part('whisker')),
      part('share'), part('value'), part('interval'), part('rate'), SPEEDS.map(([name, title]) => el('span', { class: `speed ${name}`, title })));
    if (query) {
      node.append(el('a', { class: 'open', href: `#q=${encodeURIComponent(query)}`, 'data-query': query, tabindex: this.kind === ROWS.pairs ? 0 : -1, 'aria-label': `Open ${query}` }));
      if (this.kind !== ROWS.pairs) node.querySelector('.open').setAttribute('aria-hidden', 'true');
    }
    const parts = {};
    for (const name of ['detail', 'track', 'fill', 'whisker', 'share', 'value', 'interval', 'rate', ...SPEEDS.map(([name]) => name)]) parts[name] = node.querySelector(`.${name}`);
    Object.assign(node, { parts, who, known: this.kind.known(row) });
    return node;
  }

  fill(node, row, measure, widest, all, seconds) {
    const { parts } = node;
    const known = this.kind.known(row);
    if (node.known !== known) {
      // The host name may arrive after the row was created.
      node.known = known;
      node.who.replaceChildren(...this.kind.label(row), parts.detail);
    }
    const value = measure.value(row);
    const place = (n) => `${Math.min(100, (100 * n) / widest).toFixed(2)}%`;
    parts.fill.style.width = place(value);
    parts.whisker.style.left = place(measure.low(row));
    parts.whisker.style.right = `${Math.max(0, 100 - (100 * measure.high(row)) / widest).toFixed(2)}%`;
    show(parts.whisker, !isPoint(measure, row));
    setText(parts.detail, this.kind.detail(row));
    setText(parts.share, all ? percent(value, all) : '');
    setText(parts.value, measure.text(value));
    setText(parts.interval, intervalText(measure, row));
    setText(parts.rate, seconds > 0 ? measure.rate(value / seconds) : '');
    for (const [name] of SPEEDS) setText(parts[name], speedText(measure, row[name]));
    parts.track.title = accuracyText(measure, row);
  }
}

/** A tab that consists of one list. */
class ListTab {
  constructor(kind, field, title) {
    Object.assign(this, { field, list: new HeavyList(kind, title), note: el('p', { class: 'note' }) });
    this.node = el('div', {}, this.list.node, this.note);
  }

  update(view) {
    const { lists, measure } = view;
    const { numbers } = this.list.kind;
    const given = (lists && lists[this.field]) || [];
    const rows = numbers ? given.map(numbers) : given;
    const all = lists ? lists[measure.name] : 0;
    this.list.update(rows, measure, all, seenSeconds(lists), view.emptyText);
    setText(this.note, rows.length > 0 ? noteOn(view, rows, this.field) : '');
  }
}

/** Upper bound for each key that is not in a list; null if it is not known. */
function othersAtMost(lists, field, measure) {
  const pairs = measure.name === 'bytes' ? 'complete_above_bytes' : 'complete_above';
  return lists[field === 'pairs' ? pairs : `${field}_others_at_most`];
}

function noteOn(view, rows, field) {
  const { lists, measure } = view;
  const sum = rows.reduce((total, row) => total + measure.value(row), 0);
  const sure = rows.filter((row) => isExact(measure, row)).length;
  const how = sure === rows.length ? 'all exact' : `${sure} exact, the others with their 90 % intervals as whiskers`;
  const most = othersAtMost(lists, field, measure);
  const unit = measure.name === 'packets' ? ' packets' : '';
  const others = !lists.exact && most > 0 ? ` Any other has ${measure.text(most)}${unit} at most.` : '';
  const known = (lists.incomplete || []).includes(field) ? ' These are the heaviest that are known; heavier ones may be missing.' : '';
  const rated = rows.some((row) => row.rate_2s !== undefined) ? ' Rates: mean of the window, last 10 s, last 2 s (– is not known yet).' : '';
  return `${rows.length} shown, ${percent(Math.min(sum, lists[measure.name]), lists[measure.name])} ${measure.of}; ${how}.${known}${others}${rated}`;
}

class FanTab {
  constructor() {
    this.out = new HeavyList('nodes', 'fan-out: sends to most others');
    this.into = new HeavyList('nodes', 'fan-in: receives from most others');
    this.notes = [this.out, this.into].map((list) => list.node.appendChild(el('p', { class: 'note' })));
    this.node = el('div', { class: 'columns' }, this.out.node, this.into.node);
  }

  update(view) {
    const lists = view.lists || {};
    const most = [lists.fan_out_others_at_most, lists.fan_in_others_at_most];
    for (const [at, [list, rows]] of [[this.out, lists.fan_out], [this.into, lists.fan_in]].entries()) {
      const none = most[at] > 0 ? `No address stands out; none has more than ${whole(most[at])}.` : view.emptyText;
      list.update(rows || [], MEASURES.peers, 0, 0, none);
      setText(this.notes[at], rows && rows.length > 0 && most[at] > 0 ? `Any other address has ${whole(most[at])} at most.` : '');
    }
  }
}

class ServiceTab {
  constructor() {
    this.list = new HeavyList('services', 'services');
    this.protocols = new HeavyList('services', 'protocols, since the start of the capture');
    this.node = el('div', { class: 'columns wide-left' }, this.list.node, this.protocols.node);
  }

  update(view) {
    const { lists, measure, state } = view;
    this.list.update((lists && lists.services) || [], measure, lists ? lists[measure.name] : 0, seenSeconds(lists), view.emptyText);
    const carried = Object.entries((state && state.protocols) || {});
    const rows = carried.map(([protocol, { packets, bytes }]) => ({
      protocol, packets, bytes, low: packets, high: packets, bytes_low: bytes, bytes_high: bytes,
      at_least: packets, at_most: packets, bytes_at_least: bytes, bytes_at_most: bytes,
    })).filter((row) => row.packets > 0);
    rows.sort((a, b) => measure.value(b) - measure.value(a));
    const all = rows.reduce((sum, row) => sum + measure.value(row), 0);
    this.protocols.update(rows, measure, all, 0, view.emptyText);
  }
}
