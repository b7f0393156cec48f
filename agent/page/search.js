// The search for an address, a pair, a network, an AS, a name or a service, and its result.

const V4 = /^\d{1,3}(\.\d{1,3}){3}$/;
const ASN = /^AS\d{1,10}$/i;
const V6 = /^[0-9a-f:.]*:[0-9a-f:.]*$/i;

function isAddress(text) {
  return (V4.test(text) && text.split('.').every((part) => Number(part) < 256)) || V6.test(text);
}

/** Completes prefixes like 10/8 and 10.1.2.3/16 to four bytes without host bits. */
function prefix(text) {
  const match = /^(\d{1,3}(?:\.\d{1,3}){0,3})\.?\/(\d{1,2})$/.exec(text);
  if (!match || Number(match[2]) > 32) return text;
  const bytes = match[1].split('.').map(Number);
  while (bytes.length < 4) bytes.push(0);
  const bits = Number(match[2]);
  const whole = bytes.map((byte, at) => {
    const kept = Math.min(8, Math.max(0, bits - 8 * at));
    return byte & (0xff << (8 - kept)) & 0xff;
  });
  return `${whole.join('.')}/${bits}`;
}

const PROTOCOLS = '(?:tcp|udp|sctp|icmp|icmpv6|gre|esp|other|fragment)';
const SERVICE = new RegExp(`^(?:\\d{1,5}|${PROTOCOLS}(?:/[a-z0-9-]+)?)$`, 'i');

/** The service that a search names, or null. Names of services follow the word "service" or "port". */
function service(text) {
  const named = /^(?:service|port)\s+(\S+)$/i.exec(text.trim());
  if (named) return named[1].toLowerCase();
  return SERVICE.test(text.trim()) ? text.trim().toLowerCase() : null;
}

function parseQuery(text, names) {
  if (service(text) && !names.has(text.trim())) return { kind: 'service', service: service(text) };
  const ends = text.trim().split(/\s*(?:→|->|>|,|\s)\s*/).filter(Boolean);
  const isEnd = (end) => end === '*' || isAddress(end) || end.includes('/') || names.has(end) || ASN.test(end);
  // Checked before splitting, because names may contain spaces.
  if (names.has(text.trim())) return { kind: 'flow', src: text.trim(), dst: '*', network: text.trim() };
  if (ends.length === 2 && ends.every(isEnd)) return { kind: 'flow', src: prefix(ends[0]), dst: prefix(ends[1]) };
  if (ends.length === 3 && ends.slice(0, 2).every(isEnd) && service(ends[2])) return { kind: 'flow', src: prefix(ends[0]), dst: prefix(ends[1]), service: service(ends[2]) };
  if (ends.length !== 1) return { kind: 'text', text: text.trim() };
  const [end] = ends;
  if (ASN.test(end)) return { kind: 'flow', src: end.toUpperCase(), dst: '*', network: end.toUpperCase() };
  if (isAddress(end)) return { kind: 'node', ip: end.toLowerCase() };
  if (end.includes('/') && /^[0-9a-f]/i.test(end)) return { kind: 'flow', src: prefix(end), dst: '*', network: prefix(end) };
  return { kind: 'text', text: end };
}

class Found {
  constructor(parent) {
    this.parent = parent;
    this.title = el('h2', { class: 'subject' });
    this.note = el('span', { class: 'note' });
    this.close = el('button', { type: 'button', class: 'close', 'aria-label': 'Close (Escape)', onclick: () => navigate({ q: '' }) }, '✕');
    this.verdict = el('p', { class: 'verdict' });
    this.facts = el('div', { class: 'facts' });
    this.services = new HeavyList('services', 'services');
    this.received = new HeavyList('services', 'services of what it received');
    this.rows = new HeavyList('pairs', 'heaviest pairs of it');
    this.nodes = new HeavyList('nodes', 'addresses');
    this.lists = [this.services, this.received, this.rows, this.nodes];
    parent.append(el('div', { class: 'panel-head' }, this.title, this.note, this.close), this.verdict, this.facts, ...this.lists.map((list) => list.node));
    /** Answers for ended windows, by interface and search. */
    this.past = new Map();
  }

  /** Begins another search and removes the previous result. */
  begin(query) {
    if (this.query === query) return;
    this.query = query;
    setText(this.title, query);
    setText(this.note, '');
    setText(this.verdict, 'Asking …');
    this.facts.replaceChildren();
    for (const list of this.lists) {
      list.list.replaceChildren();
      show(list.node, false);
    }
  }

  /** Requests the answer from the agent. */
  async ask(view, source, query) {
    const asked = this.parse(view, query);
    if (asked.kind === 'text' || !source.live) return null;
    try {
      return await this.answer(asked, view, source);
    } catch (error) {
      if (error instanceof Refused) return { refused: error.message };
      throw error;
    }
  }

  parse(view, query) {
    const names = new Set();
    for (const group of (view.state && view.state.groups) || []) names.add(group.src).add(group.dst);
    return parseQuery(query, names);
  }

  /** Shows the answer. */
  update(view, source, query, answer) {
    const asked = this.parse(view, query);
    this.draw(asked, source.live ? answer : this.fromLists(asked, view), view, source);
  }

  async answer(asked, view, source) {
    const ask = (which) => {
      if (asked.kind === 'node') return source.node(asked.ip, view.interface, which, view.by);
      if (asked.kind === 'service') return source.service(asked.service, view.interface, which, view.by);
      return source.flow(asked.src, asked.dst, asked.service, view.interface, which, view.by);
    };
    const now = await ask(view.which);
    const windows = this.windows(asked, view);
    const { current, last } = view.state;
    const keep = (window, answer, isCurrent) => {
      if (answer) windows.set(window.start, { start: window.start, seconds: window.seconds, current: isCurrent, rows: rowsOf(asked, answer) });
    };
    keep(view.which === 'last' ? last : current, now, view.which === 'current');
    const known = last && windows.get(last.start);
    if (last && view.which === 'current' && (!known || known.current)) keep(last, await ask('last'), false);
    return now;
  }

  /** The answer from the lists of a report. */
  fromLists(asked, view) {
    const lists = view.lists || {};
    if (asked.kind === 'node') {
      const of = (list) => (list || []).find((row) => row.ip === asked.ip);
      const found = { sent: of(lists.sources), received: of(lists.destinations), fan_out: of(lists.fan_out), fan_in: of(lists.fan_in) };
      return Object.values(found).some(Boolean) ? found : null;
    }
    if (asked.kind === 'service') {
      const estimate = (lists.services || []).find((row) => serviceQuery(row) === asked.service);
      return estimate ? { estimate, pairs: [] } : null;
    }
    if (asked.service) return null;
    const pair = (src, dst) => (lists.pairs || []).find((row) => row.src === src && row.dst === dst);
    const [estimate, back] = [pair(asked.src, asked.dst), pair(asked.dst, asked.src)];
    return estimate || back ? { estimate, back } : null;
  }

  windows(asked, view) {
    const key = JSON.stringify([view.interface, asked]);
    if (!this.past.has(key)) {
      if (this.past.size > 50) this.past.clear();
      const windows = new Map();
      // Windows that have ended since the page was opened.
      for (const lists of view.past) {
        const rows = listed(asked, lists);
        if (rows) windows.set(lists.start, { start: lists.start, seconds: lists.seconds, rows });
      }
      this.past.set(key, windows);
    }
    return this.past.get(key);
  }

  draw(asked, answer, view, source) {
    const { measure } = view;
    if (asked.kind === 'text') return this.drawMatches(asked.text, view);
    show(this.nodes.node, false);
    const on = asked.service ? `, ${asked.service}` : '';
    const subject = asked.kind === 'node' ? asked.ip : asked.kind === 'service' ? asked.service
      : asked.network ? asked.network : `${asked.src} → ${asked.dst}${on}`;
    setText(this.title, subject);
    setText(this.note, [answer && answer.name && answer.name !== 'other' ? answer.name : '', answer && answer.known, view.windowText].filter(Boolean).join(' · '));
    if (!answer || answer.refused) {
      setText(this.verdict, answer ? answer.refused : source.live ? 'The agent has no such window yet.'
        : 'Not in the lists of this report. The lists contain only the heaviest entries, so this search may still have packets in the capture file: use crane-agent replay with --ask.');
      this.facts.replaceChildren();
      for (const list of this.lists) show(list.node, false);
      return undefined;
    }
    const rows = rowsOf(asked, answer);
    const never = rows.every((row) => row && row.at_most === 0);
    const maybe = rows.every((row) => row && row.packets === 0);
    setText(this.verdict, never ? 'no packets (exact)' : maybe ? 'no packets (estimated)' : '');
    const labels = asked.kind === 'service' ? ['all pairs'] : asked.kind === 'node' ? ['sent', 'received'] : asked.network ? ['sent', 'received'] : [`${asked.src} → ${asked.dst}`, `${asked.dst} → ${asked.src}`];
    const facts = labels.map((label, at) => this.fact(label, rows[at], at, asked, view, source));
    for (const [label, noun, peers] of [['sends to', 'destination', answer.fan_out], ['receives from', 'source', answer.fan_in]]) {
      if (!peers) continue;
      facts.push(el('div', { class: 'fact' }, el('h3', {}, label), el('p', { class: 'big' }, whole(peers.peers), el('small', {}, ` ${noun}${peers.peers === 1 ? '' : 's'}`)),
        el('p', { class: 'sure' }, accuracyText(MEASURES.peers, peers))));
    }
    if (!this.facts.firstChild || !isHeld(this.facts)) this.facts.replaceChildren(...facts);
    const of = (row) => asked.kind === 'node' ? row.src === asked.ip || row.dst === asked.ip : false;
    // In a report, the pairs are taken from its lists.
    const pairs = answer.pairs || ((view.lists && view.lists.pairs) || []).filter(of).slice(0, 20);
    const all = view.lists ? view.lists[measure.name] : 0;
    const known = answer.services || [];
    const node = !Array.isArray(known);
    this.services.rename(node ? 'services of what it sent' : 'services');
    for (const [list, rows] of [[this.services, node ? known.sent : known], [this.received, node ? known.received : []], [this.rows, pairs]]) {
      show(list.node, rows.length > 0);
      list.update(rows, measure, all, seenSeconds(view.lists));
    }
    return undefined;
  }

  fact(label, row, at, asked, view, source) {
    const { measure } = view;
    const parts = [el('h3', {}, label)];
    if (!row) {
      parts.push(el('p', { class: 'big' }, '–'), el('p', { class: 'sure' }, 'not in the list'));
      return el('div', { class: 'fact' }, parts);
    }
    const other = measure.name === 'bytes' ? `${short(row.packets)} packets` : bytesText(row.bytes);
    const all = view.lists ? view.lists[measure.name] : 0;
    const share = all > 0 ? `${percent(measure.value(row), all)} ${measure.of}` : '';
    parts.push(el('p', { class: 'big' }, measure.text(measure.value(row)), el('small', {}, ` ${measure.name === 'packets' ? 'packets' : ''}`)));
    parts.push(el('p', { class: 'sure' }, [other, share].filter(Boolean).join(', ')));
    parts.push(el('p', { class: 'sure' }, isExact(measure, row) ? 'exact' : `${accuracyText(measure, row)}; ${bounds(measure, row)}`));
    const windows = source.live
      ? [...this.windows(asked, view).values()].sort((a, b) => a.start - b.start).map((one) => ({ ...one, row: one.rows[at] }))
      : asked.kind === 'flow' && at === 0 ? source.pairWindows(view.interface, asked.src, asked.dst) : [];
    if (windows.length > 0) parts.push(windowBars(windows.slice(-20), measure, 240, 64), el('p', { class: 'note' }, source.live ? 'windows this page has seen' : 'windows; ? where it is not among the heaviest'));
    return el('div', { class: 'fact' }, parts);
  }

  /** Shows the rows of all lists that contain the text. */
  drawMatches(text, view) {
    const { measure } = view;
    const lists = view.lists || {};
    const wanted = text.toLowerCase();
    const has = (...texts) => texts.some((one) => one && one.toLowerCase().includes(wanted));
    const pairs = (lists.pairs || []).filter((row) => has(row.src, row.dst, row.src_name, row.dst_name, knownText(row, 'src_'), knownText(row, 'dst_'), serviceText(row.service)));
    const nodes = new Map();
    for (const row of [...(lists.sources || []), ...(lists.destinations || [])]) {
      const before = nodes.get(row.ip);
      if (has(row.ip, row.name, knownText(row)) && !(before && measure.value(before) > measure.value(row))) nodes.set(row.ip, row);
    }
    setText(this.title, text);
    setText(this.note, 'in the lists');
    this.facts.replaceChildren();
    for (const list of [this.services, this.received]) show(list.node, false);
    const count = pairs.length + nodes.size;
    setText(this.verdict, count > 0 ? '' : `No list has “${text}” in it. Addresses (10.0.0.1), pairs (10.0.0.1 10.0.0.2), networks (10.0.0.0/8), AS numbers (AS64496), services (tcp/443, or the word “service” and a name) and configured names are asked for directly, heavy or not.`);
    show(this.rows.node, pairs.length > 0);
    show(this.nodes.node, nodes.size > 0);
    const all = lists[measure.name] || 0;
    this.rows.update(pairs.slice(0, 20), measure, all, seenSeconds(lists));
    this.nodes.update([...nodes.values()].sort((a, b) => measure.value(b) - measure.value(a)).slice(0, 10), measure, all, seenSeconds(lists));
  }
}

/** The numbers of both directions: A → B and B → A, or sent and received. */
function rowsOf(asked, answer) {
  if (asked.kind === 'service') return [answer.estimate];
  return asked.kind === 'node' ? [answer.sent, answer.received] : [answer.estimate, answer.back];
}

/** The same numbers from lists, or null if they do not contain them. */
function listed(asked, lists) {
  if (asked.kind === 'node') {
    const rows = [lists.sources, lists.destinations].map((list) => list.find((row) => row.ip === asked.ip));
    return rows.some(Boolean) ? rows : null;
  }
  if (asked.kind === 'service') {
    const row = lists.services.find((one) => serviceQuery(one) === asked.service);
    return row ? [row] : null;
  }
  // Lists contain pairs only with all their services together.
  if (asked.service) return null;
  const pair = (src, dst) => lists.pairs.find((row) => row.src === src && row.dst === dst);
  const rows = [pair(asked.src, asked.dst), pair(asked.dst, asked.src)];
  return rows.some(Boolean) ? rows : null;
}

/** The guaranteed bounds of a number. */
function bounds(measure, row) {
  const [least, most] = [measure.least(row), measure.most(row)].map((bound) => (bound === undefined ? null : bound));
  if (most === null) return least > 0 ? `guaranteed at least ${measure.text(least)}` : 'no guaranteed bounds';
  return least > 0 ? `guaranteed ${measure.text(least)} to ${measure.text(most)}` : `guaranteed at most ${measure.text(most)}`;
}
