// The state of the sketches and the measured accuracy of intervals.

const LAYER_BITS = [4, 8, 32];

class SketchTab {
  constructor() {
    this.summary = el('p', { class: 'lead' });
    this.cards = el('div', { class: 'cards' });
    this.node = el('div', { class: 'sketch' }, this.summary, this.cards);
  }

  update(view) {
    const answer = view.sketch;
    if (!answer) {
      setText(this.summary, view.emptyText || 'Asking the agent …');
      return;
    }
    const sketches = answer.sketches;
    const kinds = Object.values(sketches);
    const exact = kinds.length > 0 && kinds.every((one) => one.kind === 'table');
    setText(this.summary, kinds.length === 0 ? 'The report has no data about the sketches of this capture.' : exact
      ? 'Everything fits: each pair, address and service has a counter of its own, and all answers are exact.'
      : 'At least one table was full and was replaced by layers. The heaviest entries are still counted by name. All others share small cells in layers, and their numbers are estimates with intervals.');
    const rows = ((view.lists && view.lists.pairs) || []);
    const order = ['pairs', 'sources', 'destinations', 'services'].filter((name) => sketches[name]);
    keyed(this.cards, order, (name) => name, (name) => el('section', { class: 'card', 'aria-label': name }),
      (node, name) => (node.firstChild && isHeld(node)) || node.replaceChildren(...this.card(name, sketches[name], name === 'pairs' ? rows : null, view)));
  }

  card(name, one, rows, view) {
    const table = one.kind === 'table';
    const parts = [el('h3', {}, name, el('span', { class: 'badge' + (table ? '' : ' warm') }, table ? 'table, exact' : 'layers, estimated'))];
    parts.push(el('p', { class: 'big' }, one.distinct === null ? '–' : (table ? '' : '≈' + NB) + whole(one.distinct), el('small', {}, ` different ${name}`)));
    if (!table && one.fill) {
      const layers = one.fill.map((share, at) => this.meter(`layer ${at + 1}, ${LAYER_BITS[at] || '?'}-bit cells`, share, `${(100 * share).toFixed(1)}${NB}% of cells taken`, 3 - at));
      parts.push(el('div', { class: 'stack' }, layers.reverse()));
    }
    parts.push(this.meter(table ? 'table' : 'heaviest by name', one.named / Math.max(1, one.places), `${whole(one.named)} of ${whole(one.places)} places`));
    parts.push(this.meter('memory', one.memory_bytes / one.budget_bytes, `${bytesText(one.memory_bytes)} of ${bytesText(one.budget_bytes)}`));
    if (one.judged) {
      const share = one.judged.held / one.judged.of;
      parts.push(this.meter('90 % intervals that hold', share, `${whole(one.judged.held)} of ${whole(one.judged.of)} that are counted exactly beside the layers`, 0, 0.9));
    }
    if (rows && rows.length > 0) {
      const sure = rows.filter((row) => isExact(view.measure, row)).length;
      parts.push(this.meter('exact among those listed', sure / rows.length, `${sure} of ${rows.length} pairs`));
    }
    return parts;
  }

  /** A share as a bar, with a mark at `goal`. */
  meter(label, share, text, depth, goal) {
    const bar = el('span', { class: 'meter', 'aria-hidden': 'true' }, el('span', { class: 'fill' }), goal ? el('span', { class: 'goal' }) : '');
    bar.firstChild.style.width = `${Math.min(100, 100 * share).toFixed(2)}%`;
    if (goal) bar.lastChild.style.left = `${100 * goal}%`;
    return el('div', { class: 'measure' + (depth ? ` depth${depth}` : '') }, el('span', { class: 'label' }, label), bar, el('span', { class: 'text' }, text));
  }
}
