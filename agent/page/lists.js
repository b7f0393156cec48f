// Lists of who is heavy: bar, share, value, and how sure that is.

/** An address with the name of its network. */
function address(ip, name) {
  return el('a', { class: 'address', href: `#q=${encodeURIComponent(ip)}`, 'data-query': ip, title: name ? `${ip} in ${name}` : ip },
    el('span', { class: 'ip' }, ip), name && name !== 'other' ? el('span', { class: 'tag' }, name) : '');
}

const ROWS = {
  pairs: {
    key: (row) => `${row.src} ${row.dst}`,
    query: (row) => `${row.src} → ${row.dst}`,
    label: (row) => [
      address(row.src, row.src_name), el('span', { class: 'arrow', 'aria-hidden': 'true' }, '→'), address(row.dst, row.dst_name),
    ],
    detail: (row) => serviceText(row.service),
  },
  nodes: {
    key: (row) => row.ip,
    query: (row) => row.ip,
    label: (row) => [address(row.ip, row.name)],
    detail: () => '',
  },
  services: {
    key: (row) => serviceText(row),
    query: () => null,
    label: (row) => [el('span', { class: 'ip' }, serviceText(row))],
    detail: () => '',
  },
};

/** A list that keeps its place while the pointer is on it. */
class HeavyList {
  constructor(kind, title) {
    this.kind = ROWS[kind];
    this.list = el('ol', { class: `rows ${kind}`, 'aria-label': title });
    this.empty = el('p', { class: 'empty', hidden: true });
    this.more = el('button', { type: 'button', class: 'more', hidden: true, onclick: () => {
      this.shown = Infinity;
      this.again();
    } });
    this.node = el('div', { class: 'list' }, title ? el('h3', {}, title) : '', this.list, this.more, this.empty);
    this.shown = matchMedia('(max-width: 760px)').matches ? 15 : 30;
  }

  /** Shares are of `all`; none where there is nothing to have a share of. */
  update(rows, measure, all, seconds, emptyText) {
    this.again = () => this.update(rows, measure, all, seconds, emptyText);
    const left = rows.length - this.shown;
    show(this.more, left > 0);
    say(this.more, `${left} more`);
    rows = rows.slice(0, this.shown);
    const most = Math.max(1, ...rows.map((row) => measure.value(row)));
    const widest = Math.max(most, ...rows.map((row) => Math.min(measure.high(row), 1.15 * most)));
    this.list.classList.toggle('exact', rows.every((row) => isPoint(measure, row)));
    this.list.classList.toggle('still', !(seconds > 0));
    // Rows stay under the pointer, but not those of something else.
    const hold = isHeld(this.list) && this.subject === subject;
    this.subject = subject;
    keyed(this.list, rows, this.kind.key, (row) => this.create(row),
      (node, row) => this.fill(node, row, measure, widest, all, seconds), hold);
    show(this.empty, rows.length === 0);
    say(this.empty, rows.length === 0 ? emptyText || 'Nothing here yet.' : '');
  }

  create(row) {
    const query = this.kind.query(row);
    const part = (name) => el('span', { class: name });
    const node = el('li', {}, el('span', { class: 'who' }, this.kind.label(row), el('span', { class: 'detail' })),
      el('span', { class: 'track', 'aria-hidden': 'true' }, part('fill'), part('whisker')),
      part('share'), part('value'), part('interval'), part('rate'));
    if (query) {
      node.append(el('a', { class: 'open', href: `#q=${encodeURIComponent(query)}`, 'data-query': query, tabindex: this.kind === ROWS.pairs ? 0 : -1, 'aria-label': `Open ${query}` }));
      if (this.kind !== ROWS.pairs) node.querySelector('.open').setAttribute('aria-hidden', 'true');
    }
    const parts = {};
    for (const name of ['detail', 'track', 'fill', 'whisker', 'share', 'value', 'interval', 'rate']) parts[name] = node.querySelector(`.${name}`);
    node.parts = parts;
    return node;
  }

  fill(node, row, measure, widest, all, seconds) {
    const { parts } = node;
    const value = measure.value(row);
    const place = (n) => `${Math.min(100, (100 * n) / widest).toFixed(2)}%`;
    parts.fill.style.width = place(value);
    parts.whisker.style.left = place(measure.low(row));
    parts.whisker.style.right = `${Math.max(0, 100 - (100 * measure.high(row)) / widest).toFixed(2)}%`;
    show(parts.whisker, !isPoint(measure, row));
    say(parts.detail, this.kind.detail(row));
    say(parts.share, all ? percent(value, all) : '');
    say(parts.value, measure.text(value));
    say(parts.interval, intervalText(measure, row));
    say(parts.rate, seconds > 0 ? measure.rate(value / seconds) : '');
    parts.track.title = trustText(measure, row);
  }
}

/** Tabs that are one list. */
class ListTab {
  constructor(kind, field, title) {
    Object.assign(this, { field, list: new HeavyList(kind, title), note: el('p', { class: 'note' }) });
    this.node = el('div', {}, this.list.node, this.note);
  }

  update(view) {
    const { lists, measure } = view;
    const rows = (lists && lists[this.field]) || [];
    const all = lists ? lists[measure.name] : 0;
    this.list.update(rows, measure, all, seenSeconds(lists), view.emptyText);
    say(this.note, rows.length > 0 ? noteOn(view, rows) : '');
  }
}

function noteOn(view, rows) {
  const { lists, measure } = view;
  const sum = rows.reduce((total, row) => total + measure.value(row), 0);
  const sure = rows.filter((row) => isExact(measure, row)).length;
  const how = sure === rows.length ? 'all exact' : `${sure} exact, the others with their 90 % intervals as whiskers`;
  return `${rows.length} shown, ${percent(Math.min(sum, lists[measure.name]), lists[measure.name])} ${measure.of}; ${how}.`;
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
      const nobody = most[at] > 0 ? `Nobody stands out; no address has more than ${whole(most[at])}.` : view.emptyText;
      list.update(rows || [], MEASURES.peers, 0, 0, nobody);
      say(this.notes[at], rows && rows.length > 0 && most[at] > 0 ? `Any other address has ${whole(most[at])} at most.` : '');
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
