// The five numbers below the header, and notable addresses and pairs.

class Numbers {
  constructor(parent) {
    this.cells = {};
    for (const name of ['bits', 'packets', 'pairs', 'lost', 'answers']) {
      const [value, unit] = [el('span', { class: 'value' }, '–'), el('span', { class: 'unit' })];
      this.cells[name] = { value, unit, node: el('div', { class: `number ${name}` }, value, unit) };
      parent.append(this.cells[name].node);
    }
  }

  set(name, value, unit, title) {
    const cell = this.cells[name];
    setText(cell.value, value);
    setText(cell.unit, unit);
    cell.node.title = title || '';
  }

  update(view, rate) {
    const { lists, state } = view;
    const [bits, unit] = rate ? bitsText(8 * rate.bytes).split(NB) : ['–', 'bit/s'];
    this.set('bits', bits, unit, rate && rate.mean ? 'mean over the whole capture' : 'now');
    const packets = rate ? short(rate.packets).split(NB) : ['–'];
    this.set('packets', packets.join(NB), 'packets/s');
    const distinct = lists && lists.distinct_pairs;
    const known = distinct !== null && distinct !== undefined && lists;
    this.set('pairs', known ? (lists.exact ? '' : '≈' + NB) + whole(distinct) : '–', distinct === 1 ? 'pair' : 'pairs', 'different pairs of addresses in this window');
    const lost = view.lost;
    this.set('lost', lost === null ? '–' : short(lost), 'lost', state ? lossText(state) : '');
    this.cells.lost.node.classList.toggle('alarm', lost > 0);
    const [sure, of] = certainty(view);
    this.set('answers', sure, of, 'how sure the lists are');
  }
}

/** `exact`, or the typical width of the intervals of the heaviest rows, and their number. */
function certainty(view) {
  const { lists, measure } = view;
  if (!lists || lists.packets === 0) return ['–', 'answers'];
  if (lists.exact) return ['exact', 'answers'];
  const widths = lists.pairs.slice(0, 10).map((row) => (measure.high(row) - measure.low(row)) / 2 / Math.max(1, measure.value(row)));
  if (widths.length === 0) return ['estimated', 'answers'];
  widths.sort((a, b) => a - b);
  const middle = 100 * widths[Math.floor(widths.length / 2)];
  const of = `in the top ${widths.length}`;
  if (lists.pairs.slice(0, 10).every((row) => isExact(measure, row))) return ['exact', of];
  return [`±${NB}${middle < 10 ? Math.max(0.1, middle).toFixed(1) : Math.round(middle)}${NB}%`, of];
}

function lossText(state) {
  const reasons = Object.entries(state.dropped).filter(([, count]) => count > 0);
  if (reasons.length === 0) return 'no packet was lost since the start';
  return 'since the start: ' + reasons.map(([reason, count]) => `${whole(count)} by ${LOSERS[reason] || reason}`).join(', ');
}

const LOSERS = { ring_full: 'the agent (its ring was full)', kernel: 'the kernel', interface: 'the interface' };

/** Hints for addresses that exchange one or two packets with most peers. */
const HINTS = { scan: ' (scan?)', flood: ' (flood?)' };

/** Notable addresses and pairs: a list of { text, query, alarm }. */
function notable(view) {
  const found = [];
  const { lists, measure, state } = view;
  if (state && !state.up && !state.ended) found.push({ text: `${state.interface} is not captured: it is down, or the right to capture is missing`, alarm: true });
  if (state && state.error) found.push({ text: `the capture could not be read completely: ${state.error}`, alarm: true });
  if (view.lost > 0) {
    const [reason] = Object.entries(state.dropped).sort((a, b) => b[1] - a[1])[0];
    found.push({ text: `${short(view.lost)} packets lost ${view.live ? 'in the last 15 minutes' : ''}, most by ${LOSERS[reason] || reason}`, alarm: true });
  }
  if (state && state.saturated) found.push({ text: 'a counter is full: heavy pairs may be counted too low', alarm: true });
  if (!lists || lists.packets === 0) return found;
  for (const row of (lists.notable || []).slice(0, 4)) {
    const hint = HINTS[row.kind] || '';
    const out = row.kind === 'scan' || row.kind === 'fan_out';
    found.push({ query: row.ip, name: row.name, text: `${out ? 'sends to' : 'receives from'} ${whole(row.peers)} ${out ? 'destinations' : 'sources'}${hint}`, alarm: hint !== '', weight: row.peers });
  }
  for (const row of newPairs(view).slice(0, 3)) {
    found.push({ query: `${row.src} → ${row.dst}`, text: `new, ${percent(measure.value(row), lists[measure.name])} ${measure.of}` });
  }
  const first = lists.pairs[0];
  if (first && measure.value(first) > 0.4 * lists[measure.name] && lists.pairs.length > 1) {
    found.push({ query: `${first.src} → ${first.dst}`, text: `alone has ${percent(measure.value(first), lists[measure.name])} ${measure.of}` });
  }
  return found;
}

/** Heavy pairs that were not listed in the previous window. */
function newPairs(view) {
  const { lists, measure, past } = view;
  const before = past.length > 0 ? past[past.length - 1] : null;
  if (!before || before.start === lists.start || before.pairs.length === 0) return [];
  const known = new Set(before.pairs.map(ROWS.pairs.key));
  const all = lists[measure.name];
  return lists.pairs.filter((row) => measure.value(row) > 0.05 * all && !known.has(ROWS.pairs.key(row)));
}

class Notable {
  constructor(parent) {
    this.list = el('ul', {});
    parent.append(this.list);
  }

  update(view) {
    const found = notable(view);
    if (found.length === 0) {
      found.push({ text: view.lists && view.lists.packets > 0 ? 'nothing unusual in this window' : view.emptyText || 'waiting for packets', quiet: true });
    }
    const key = (one) => `${one.query || ''} ${one.query ? one.text.replace(/[\d,.<]+/g, '#') : one.text}`;
    keyed(this.list, found, key, (one) => el('li', { class: one.alarm ? 'alarm' : one.quiet ? 'quiet' : '' },
      el('span', { class: 'mark', 'aria-hidden': 'true' }, one.alarm ? '▲' : one.quiet ? '✓' : '●'),
      one.query ? el('a', { href: `#q=${encodeURIComponent(one.query)}`, 'data-query': one.query }, one.query) : '',
      el('span', { class: 'what' })), (node, one) => setText(node.querySelector('.what'), one.text), isHeld(this.list));
  }
}
