// The heaviest pairs as a graph. The position of a new node depends on its address and its peers;
// existing nodes usually do not move.

const SIZES = [10, 25, 50, 100, 200];

class GraphTab {
  constructor() {
    this.size = matchMedia('(max-width: 600px)').matches ? 25 : 50;
    this.places = new Map();
    this.settled = 0;
    this.read = el('output', { class: 'read' });
    this.choice = el('div', { class: 'choice', role: 'group', 'aria-label': 'Nodes' }, SIZES.map((size) =>
      el('button', { type: 'button', 'aria-pressed': String(size === this.size), onclick: () => this.resize(size) }, String(size))));
    this.picture = svg('svg', { class: 'graph', role: 'img' });
    this.empty = el('p', { class: 'empty', hidden: true });
    this.head = el('div', { class: 'panel-head' }, el('span', { class: 'note' }, 'nodes'), this.choice, this.read);
    this.node = el('div', {}, this.head, this.picture, this.empty);
    this.picture.addEventListener('pointerover', (event) => this.focus(event.target.closest('.node')));
    this.picture.addEventListener('pointerleave', () => this.focus(null));
    this.picture.addEventListener('click', (event) => {
      const node = event.target.closest('.node');
      if (node) navigate({ q: node.dataset.key });
    });
    new ResizeObserver(() => this.view && this.draw()).observe(this.node);
  }

  resize(size) {
    this.size = size;
    for (const button of this.choice.children) set(button, 'aria-pressed', Number(button.textContent) === size);
    this.focused = null;
    if (this.view) this.update(this.view);
  }

  update(view) {
    if (this.interface !== view.interface) {
      this.interface = view.interface;
      this.places.clear();
      this.settled = 0;
    }
    this.view = view;
    const pairs = (view.lists && view.lists.pairs) || [];
    show(this.empty, pairs.length === 0);
    setText(this.empty, pairs.length === 0 ? view.emptyText : '');
    this.picture.classList.toggle('none', pairs.length === 0);
    this.collect(pairs, view.measure);
    this.draw();
  }

  /** Collects the nodes of the heaviest pairs, and one edge for both directions. */
  collect(pairs, measure) {
    const [nodes, edges] = [new Map(), new Map()];
    const node = (ip, name) => {
      if (!nodes.has(ip)) nodes.set(ip, { ip, name, weight: 0, peers: new Set() });
      return nodes.get(ip);
    };
    for (const row of pairs) {
      const more = !nodes.has(row.src) + !nodes.has(row.dst);
      if (nodes.size + more > this.size) continue;
      const [a, b] = [node(row.src, row.src_name), node(row.dst, row.dst_name)];
      const value = measure.value(row);
      a.weight += value;
      b.weight += value;
      if (a === b) continue;
      a.peers.add(b.ip);
      b.peers.add(a.ip);
      const key = [row.src, row.dst].sort().join(' ');
      const edge = edges.get(key) || { key, a, b, weight: 0 };
      edge.weight += value;
      edges.set(key, edge);
    }
    this.nodes = [...nodes.values()].sort((a, b) => b.weight - a.weight);
    this.edges = [...edges.values()].sort((a, b) => a.weight - b.weight);
    const most = Math.max(1, ...this.nodes.map((one) => one.weight));
    for (const one of this.nodes) one.radius = 4 + 14 * Math.sqrt(one.weight / most);
  }

  draw() {
    const width = Math.max(280, this.node.clientWidth);
    const height = width < 600 ? Math.round(width * 1.25) : Math.min(680, Math.max(420, Math.round(width * 0.48)));
    set(this.picture, 'viewBox', `0 0 ${width} ${height}`);
    set(this.picture, 'width', width);
    set(this.picture, 'height', height);
    const inner = { width: width - (width < 600 ? 60 : 130), height: height - 60 };
    this.arrange(inner);
    for (const one of this.nodes) {
      const place = this.places.get(one.ip);
      one.x = (width - inner.width) / 2 + place.x * inner.width;
      one.y = 30 + place.y * inner.height;
    }
    const names = new Map(this.nodes.map((one) => [one.ip, one]));
    if (!this.layers) {
      this.layers = ['clusters', 'edges', 'nodes', 'labels'].map((name) => svg('g', { class: name }));
      this.picture.append(...this.layers);
    }
    const [clusters, edges, nodes, labels] = this.layers;
    this.drawClusters(clusters, height);
    const most = Math.max(1, ...this.edges.map((edge) => edge.weight));
    keyed(edges, this.edges, (edge) => edge.key, () => svg('line', {}), (line, edge) => {
      for (const [name, value] of [['x1', edge.a.x], ['y1', edge.a.y], ['x2', edge.b.x], ['y2', edge.b.y]]) set(line, name, value.toFixed(1));
      set(line, 'stroke-width', (0.75 + 9 * Math.sqrt(edge.weight / most)).toFixed(2));
    });
    keyed(nodes, this.nodes, (one) => one.ip, () => svg('g', { class: 'node' }, svg('circle', {}), svg('circle', { class: 'reach' })), (group, one) => {
      set(group, 'transform', `translate(${one.x.toFixed(1)} ${one.y.toFixed(1)})`);
      set(group.firstChild, 'r', one.radius.toFixed(1));
      set(group.lastChild, 'r', Math.max(12, one.radius + 4).toFixed(1));
    });
    this.drawLabels(labels, width, height);
    this.byIp = names;
    set(this.picture, 'aria-label', `Graph of ${this.nodes.length} addresses and ${this.edges.length} connections; the heaviest is ${this.nodes.length > 0 ? this.nodes[0].ip : 'none'}. The tab pairs has the same as a list.`);
    this.emphasise();
  }

  /** Places new nodes. The others keep their positions, except after large changes. */
  arrange(box) {
    const fresh = this.nodes.filter((one) => !this.places.has(one.ip));
    for (const one of fresh) {
      const near = [...one.peers].map((ip) => this.places.get(ip)).filter(Boolean);
      const h = hash(one.ip);
      const [dx, dy] = [(h % 1000) / 1000 - 0.5, (Math.floor(h / 1000) % 1000) / 1000 - 0.5];
      let [x, y] = [0.5, 0.5];
      let spread = 0.9;
      if (near.length > 0) {
        x = near.reduce((sum, place) => sum + place.x, 0) / near.length;
        y = near.reduce((sum, place) => sum + place.y, 0) / near.length;
        spread = 0.3;
      }
      this.places.set(one.ip, { x: x + spread * dx, y: y + spread * dy });
    }
    const narrow = box.width < 500;
    // With many new nodes or another shape of the graph, all nodes are placed again.
    const anew = this.nodes.length > 1.4 * this.settled || this.narrow !== narrow;
    if (fresh.length === 0 && !anew) return;
    this.narrow = narrow;
    if (anew) this.settled = this.nodes.length;
    relax(this.nodes, this.edges, this.places, anew ? null : new Set(fresh), box);
  }

  drawClusters(parent, height) {
    const clusters = new Map();
    for (const one of this.nodes) {
      if (!one.name || one.name === 'other') continue;
      if (!clusters.has(one.name)) clusters.set(one.name, []);
      clusters.get(one.name).push(one);
    }
    keyed(parent, [...clusters], ([name]) => name, ([name]) => svg('g', {}, svg('path', {}), svg('text', { 'text-anchor': 'middle' }, name)), (group, [, members]) => {
      const outline = hull(members.map((one) => [one.x, one.y]));
      set(group.firstChild, 'd', `M${outline.map((point) => point.map((n) => n.toFixed(1)).join(',')).join('L')}Z`);
      // At the edge that is nearer to the border of the graph, where there are fewer labels.
      const [top, bottom] = [Math.min, Math.max].map((end) => end(...outline.map((point) => point[1])));
      const middle = outline.reduce((sum, point) => sum + point[0], 0) / outline.length;
      const below = top + bottom > 1.15 * height;
      set(group.lastChild, 'x', middle.toFixed(1));
      set(group.lastChild, 'y', Math.min(height - 4, Math.max(12, below ? bottom + 35 : top - 26)).toFixed(1));
    });
  }

  /** Draws labels of the heaviest nodes where there is room. */
  drawLabels(parent, width, height) {
    const size = 11;
    const taken = this.nodes.map((one) => [one.x - one.radius, one.y - one.radius, one.x + one.radius, one.y + one.radius]);
    const circles = taken.length;
    // The 8 heaviest nodes have a label even if it covers a small node.
    const clashes = (box, own) => taken.some((other, at) => at !== own && !(own < 8 && at < circles && this.nodes[at].radius < 8) && box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
    const labelled = [];
    this.nodes.forEach((one, own) => {
      const long = one.ip.length * size * 0.61 + 2;
      const spots = [
        [one.x + one.radius + 4, one.y + 4, 'start'], [one.x - one.radius - 4, one.y + 4, 'end'],
        [one.x, one.y - one.radius - 5, 'middle'], [one.x, one.y + one.radius + 12, 'middle'],
      ];
      one.label = null;
      for (const [x, y, anchor] of spots) {
        const left = anchor === 'start' ? x : anchor === 'end' ? x - long : x - long / 2;
        const box = [left, y - size, left + long, y + 3];
        if (box[0] < 0 || box[2] > width || box[1] < 0 || box[3] > height || clashes(box, own)) continue;
        taken.push(box);
        one.label = { x, y, anchor, shown: true };
        break;
      }
      if (!one.label) one.label = { x: Math.min(width - long, Math.max(0, one.x + one.radius + 4)), y: one.y + 4, anchor: 'start', shown: false };
      labelled.push(one);
    });
    keyed(parent, labelled, (one) => one.ip, (one) => svg('text', {}, one.ip), (text, one) => {
      set(text, 'x', one.label.x.toFixed(1));
      set(text, 'y', one.label.y.toFixed(1));
      set(text, 'text-anchor', one.label.anchor);
      text.classList.toggle('crowded', !one.label.shown);
    });
  }

  focus(group) {
    const ip = group ? group.dataset.key : null;
    if (ip === this.focused) return;
    this.focused = ip;
    this.emphasise();
  }

  emphasise() {
    const one = this.focused && this.byIp.get(this.focused);
    this.picture.classList.toggle('dim', Boolean(one));
    // More than 20 labels would not be readable.
    this.picture.classList.toggle('few', Boolean(one) && one.peers.size <= 20);
    setText(this.read, one ? `${one.ip}${one.name && one.name !== 'other' ? ` (${one.name})` : ''}: ${this.view.measure.text(one.weight)}${this.view.measure.name === 'packets' ? ' packets' : ''} with ${one.peers.size} shown here` : '');
    const near = (ip) => one && (ip === one.ip || one.peers.has(ip));
    const [, edges, nodes, labels] = this.layers;
    for (const group of nodes.children) group.classList.toggle('near', Boolean(near(group.dataset.key)));
    for (const text of labels.children) text.classList.toggle('near', Boolean(near(text.dataset.key)));
    for (const line of edges.children) line.classList.toggle('near', Boolean(one && line.dataset.key.split(' ').includes(one.ip)));
  }
}

/** Applies forces for a number of steps. Only `movable` nodes move, or all if it is not given. */
function relax(nodes, edges, places, movable, box) {
  const at = new Map();
  const regions = regionsOf(nodes, box);
  const points = nodes.map((one, n) => {
    const place = places.get(one.ip);
    at.set(one.ip, n);
    const region = regions.get(networkOf(one));
    const free = !movable || movable.has(one);
    const point = { x: place.x * box.width, y: place.y * box.height, r: one.radius, free, region, ties: Math.sqrt(Math.max(1, one.peers.size)), dx: 0, dy: 0 };
    if (free) keepInside(point);
    return point;
  });
  const links = edges.map((edge) => [at.get(edge.a.ip), at.get(edge.b.ip)]);
  const ideal = 0.68 * Math.sqrt((box.width * box.height) / Math.max(4, points.length));
  const steps = 260;
  for (let step = 0; step < steps; step += 1) {
    const heat = ideal * 0.5 * (1 - step / steps) ** 1.5 + 0.1;
    for (const point of points) [point.dx, point.dy] = [0, 0];
    for (let i = 0; i < points.length; i += 1) {
      for (let j = i + 1; j < points.length; j += 1) {
        const [a, b] = [points[i], points[j]];
        let [x, y] = [a.x - b.x, a.y - b.y];
        if (x === 0 && y === 0) [x, y] = [0.1 * (i - j), 0.1];
        const far = Math.hypot(x, y);
        const room = a.r + b.r + 16;
        // Only near nodes repel each other; forces between all nodes would push them to the edge.
        if (far > 2 * ideal && far > room) continue;
        let push = (ideal * ideal) / (far * far);
        if (far < room) push += (2 * (room - far)) / far;
        a.dx += x * push;
        a.dy += y * push;
        b.dx -= x * push;
        b.dy -= y * push;
      }
    }
    for (const [i, j] of links) {
      const [a, b] = [points[i], points[j]];
      const [x, y] = [a.x - b.x, a.y - b.y];
      // Nodes of a network are pulled together; nodes with many edges move less.
      const pull = a.region === b.region ? Math.hypot(x, y) / ideal / 2.2 : 0.04;
      a.dx -= (x * pull) / a.ties;
      a.dy -= (y * pull) / a.ties;
      b.dx += (x * pull) / b.ties;
      b.dy += (y * pull) / b.ties;
    }
    for (const point of points) {
      if (!point.free) continue;
      point.dx += (point.region.x + point.region.width / 2 - point.x) * 0.12;
      point.dy += (point.region.y + point.region.height / 2 - point.y) * 0.12;
      const far = Math.hypot(point.dx, point.dy) || 1;
      const go = Math.min(far, heat);
      point.x += (point.dx / far) * go;
      point.y += (point.dy / far) * go;
      keepInside(point);
    }
  }
  separate(points);
  nodes.forEach((one, n) => places.set(one.ip, { x: points[n].x / box.width, y: points[n].y / box.height }));
}

/** Separates nodes that overlap. */
function separate(points) {
  for (let step = 0; step < 40; step += 1) {
    for (let i = 0; i < points.length; i += 1) {
      for (let j = i + 1; j < points.length; j += 1) {
        const [a, b] = [points[i], points[j]];
        const [x, y] = [a.x - b.x, a.y - b.y || 0.1];
        const far = Math.hypot(x, y);
        const room = a.r + b.r + 5;
        if (far >= room || (!a.free && !b.free)) continue;
        const each = ((room - far) / far) * (a.free && b.free ? 0.5 : 1);
        if (a.free) [a.x, a.y] = [a.x + x * each, a.y + y * each];
        if (b.free) [b.x, b.y] = [b.x - x * each, b.y - y * each];
      }
    }
    for (const point of points) if (point.free) keepInside(point);
  }
}

/** Keeps a node within the ellipse of its region. */
function keepInside(point) {
  const { x, y, width, height } = point.region;
  const [dx, dy] = [(point.x - x - width / 2) / (width / 2), (point.y - y - height / 2) / (height / 2)];
  const far = Math.hypot(dx, dy);
  if (far <= 1) return;
  point.x = x + width / 2 + ((dx / far) * width) / 2;
  point.y = y + height / 2 + ((dy / far) * height) / 2;
}

function networkOf(one) {
  return one.name && one.name !== 'other' ? one.name : '';
}

/** Divides the box between networks by their number of nodes. Without named networks, it is one region. */
function regionsOf(nodes, box) {
  const counts = new Map();
  for (const one of nodes) counts.set(networkOf(one), (counts.get(networkOf(one)) || 0) + 1);
  const regions = new Map();
  const cut = (list, x, y, width, height) => {
    if (list.length === 1) {
      const gap = counts.size > 1 ? 30 : 0;
      regions.set(list[0][0], { x: x + gap, y: y + gap, width: Math.max(40, width - 2 * gap), height: Math.max(40, height - 2 * gap) });
      return;
    }
    const weight = (part) => part.reduce((sum, [, count]) => sum + count + 2, 0);
    const all = weight(list);
    let half = 1;
    while (half < list.length - 1 && weight(list.slice(0, half)) < all / 2) half += 1;
    const [first, second] = [list.slice(0, half), list.slice(half)];
    const share = weight(first) / all;
    if (width > height) {
      cut(first, x, y, width * share, height);
      cut(second, x + width * share, y, width * (1 - share), height);
    } else {
      cut(first, x, y, width, height * share);
      cut(second, x, y + height * share, width, height * (1 - share));
    }
  };
  const order = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  if (order.length > 0) cut(order, 0, 0, box.width, box.height);
  return regions;
}

/** The convex hull of points (Andrew's monotone chain). */
function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const chain = (list) => {
    const out = [];
    for (const point of list) {
      while (out.length > 1 && turn(out[out.length - 2], out[out.length - 1], point) <= 0) out.pop();
      out.push(point);
    }
    out.pop();
    return out;
  };
  if (sorted.length < 3) return sorted.length === 1 ? [sorted[0], sorted[0]] : sorted;
  return [...chain(sorted), ...chain([...sorted].reverse())];
}
