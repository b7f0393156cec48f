// Traffic between networks that have names, as a matrix, and the heaviest autonomous systems.

class NetworkTab {
  constructor() {
    this.table = el('table', { class: 'matrix' });
    this.note = el('p', { class: 'note' });
    this.box = el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Traffic between networks' }, this.table);
    this.empty = el('div', { class: 'empty' },
      el('p', {}, 'No network has a name yet. Give names to prefixes, and what they send each other is counted exactly:'),
      el('pre', {}, 'names_file = "networks.csv"      # in crane-agent.toml, above all sections\n\n10.1.0.0/16,office               # in networks.csv\n10.2.0.0/16,servers'));
    this.asns = new ListTab('asns', 'asns', 'autonomous systems: all that their addresses sent or received');
    this.node = el('div', {}, this.box, this.note, this.empty, this.asns.node);
  }

  update(view) {
    const groups = view.state && view.state.groups;
    const hasAsns = Boolean(view.lists && view.lists.asns);
    show(this.asns.node, hasAsns);
    if (hasAsns) this.asns.update(view);
    const { measure } = view;
    show(this.empty, !groups);
    show(this.box, Boolean(groups));
    show(this.note, Boolean(groups));
    if (!groups || isHeld(this.table)) return;
    const weight = new Map();
    for (const group of groups) {
      for (const name of [group.src, group.dst]) weight.set(name, (weight.get(name) || 0) + measure.value(group));
    }
    // The heaviest network first; addresses without a name last.
    const names = [...weight.keys()].sort((a, b) => (a === 'other') - (b === 'other') || weight.get(b) - weight.get(a));
    const cells = new Map(groups.map((group) => [`${group.src} ${group.dst}`, group]));
    const most = Math.max(1, ...groups.map(measure.value));
    const all = groups.reduce((sum, group) => sum + measure.value(group), 0);
    const head = el('tr', {}, el('th', { scope: 'col', class: 'corner' }, 'from ↓  to →'), names.map((name) => el('th', { scope: 'col' }, name)));
    const rows = names.map((src) => el('tr', {}, el('th', { scope: 'row' }, src), names.map((dst) => {
      const group = cells.get(`${src} ${dst}`);
      if (!group) return el('td', { class: 'none' }, '·');
      const value = measure.value(group);
      const query = `${src} → ${dst}`;
      const cell = el('td', {}, el('span', { class: 'heat', 'aria-hidden': 'true' }),
        el('a', { href: `#q=${encodeURIComponent(query)}`, 'data-query': query }, measure.text(value), el('small', {}, percent(value, all))));
      cell.firstChild.style.opacity = (0.05 + 0.32 * Math.sqrt(value / most)).toFixed(3);
      return cell;
    })));
    this.table.style.maxWidth = `${160 + 170 * names.length}px`;
    this.table.replaceChildren(el('thead', {}, head), el('tbody', {}, rows));
    setText(this.note, `Counted exactly, since the start${view.live ? ' of the agent' : ''}; shares are of all ${measure.text(all)}${measure.name === 'packets' ? ' packets' : ''}.`);
  }
}
