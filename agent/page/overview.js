// All interfaces, the busiest first. They are never added up: a packet that crosses a
// bridge is seen on each of its ports.

class Overview {
  constructor(parent, noun) {
    this.noun = noun;
    this.filter = el('input', { type: 'search', id: 'filter', placeholder: 'filter by name', autocomplete: 'off', spellcheck: 'false', oninput: () => this.draw() });
    this.note = el('span', { class: 'note' });
    this.list = el('ol', { class: 'rows interfaces', 'aria-label': 'Interfaces' });
    this.empty = el('p', { class: 'empty', hidden: true });
    parent.append(el('div', { class: 'panel-head' }, el('h2', {}, noun), this.note,
      el('label', { class: 'hidden', for: 'filter' }, 'Filter by name'), this.filter), this.list, this.empty);
    this.rows = [];
  }

  update(interfaces, history, measure, waiting) {
    const rate = (state) => {
      // The mean over the whole file if it has been read completely.
      const length = state.ended ? state.current.seconds : 0;
      if (length > 0) return { bytes: state.bytes / length, packets: state.packets / length };
      const points = history.get(state.interface) || [];
      const last = points.slice(-3);
      const seconds = last.reduce((sum, point) => sum + point.seconds, 0);
      const sum = (value) => last.reduce((total, point) => total + value(point), 0);
      return seconds > 0 ? { bytes: sum((p) => p.bytes) / seconds, packets: sum((p) => p.packets) / seconds } : { bytes: 0, packets: 0 };
    };
    this.measure = measure;
    this.waiting = waiting;
    this.rows = interfaces.map((state) => ({ state, rate: rate(state), points: history.get(state.interface) || [] }));
    this.rows.sort((a, b) => b.rate[measure.name] - a.rate[measure.name] || b.state.packets - a.state.packets || a.state.interface.localeCompare(b.state.interface, 'en', { numeric: true }));
    this.draw();
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    const rows = this.rows.filter((row) => row.state.interface.toLowerCase().includes(wanted));
    const busy = this.rows.filter((row) => row.rate.packets > 0).length;
    // All charts have the same scale, so that they can be compared.
    this.most = Math.max(1, ...this.rows.flatMap((row) => this.speeds(row)));
    const scale = this.rows.length > 1 ? ', charts on one scale' : '';
    setText(this.note, `${this.rows.length} ${this.noun}, ${busy} with traffic${scale}`);
    show(this.empty, rows.length === 0);
    const waits = this.waiting && this.waiting.length > 0 ? ` Waiting for: ${this.waiting.join(', ')}.` : '';
    setText(this.empty, rows.length > 0 ? '' : this.rows.length > 0 ? 'No interface has this in its name.' : `No interface is captured yet.${waits}`);
    this.list.classList.toggle('calm', rows.every((row) => condition(row.state) === ''));
    keyed(this.list, rows, (row) => row.state.interface, (row) => this.create(row), (node, row) => this.fill(node, row), isHeld(this.list));
  }

  create({ state }) {
    const part = (name) => el('span', { class: name });
    return el('li', {}, el('a', { class: 'who', href: `#if=${encodeURIComponent(state.interface)}` }, el('span', { class: 'ip' }, state.interface)),
      part('spark-box'), part('value'), part('rate'), part('condition'));
  }

  /** Packets or bytes per second of each point. */
  speeds({ points }) {
    return points.map((point) => point[this.measure.name] / (point.seconds || 1));
  }

  fill(node, row) {
    const { state, rate, points } = row;
    const part = (name) => node.querySelector(`.${name}`);
    setText(part('condition'), condition(state));
    setText(part('value'), bitsText(8 * rate.bytes));
    setText(part('rate'), `${short(rate.packets)}${NB}packets/s`);
    const key = `${points.length} ${points.length > 0 ? points[points.length - 1].end : 0} ${this.most}`;
    const box = part('spark-box');
    if (box.dataset.drawn !== key) {
      box.dataset.drawn = key;
      box.replaceChildren(sparkline(this.speeds(row), points.map((point) => point.dropped), this.most, 400, 24, `Traffic of ${state.interface}`));
    }
  }
}

/** The problems of an interface as text. */
function condition(state) {
  const lost = Object.values(state.dropped || {}).reduce((sum, n) => sum + n, 0);
  const faults = [
    state.error ? '▲ incomplete' : '',
    state.up || state.ended ? '' : '▲ not captured',
    lost > 0 ? `▲ ${short(lost)} lost` : '',
  ];
  return faults.filter(Boolean).join(', ');
}
