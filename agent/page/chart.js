// Traffic over time as an area, lost packets as ticks below it.

/** Spans in seconds; the smallest one that contains all points is used. */
const SPANS = [120, 300, 900];

/** The smallest round number that is at least `most`. */
function ceiling(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((n) => n * power >= most) * power;
}

class TrafficChart {
  constructor(parent) {
    this.parent = parent;
    this.title = el('h2', {}, 'traffic');
    this.note = el('span', { class: 'note' });
    this.read = el('output', { class: 'read' });
    this.picture = svg('svg', { role: 'img', class: 'traffic' });
    this.empty = el('p', { class: 'empty', hidden: true });
    this.canvas = el('div', { class: 'canvas' }, this.picture);
    parent.append(el('div', { class: 'panel-head' }, this.title, this.note, this.read), this.canvas, this.empty);
    this.picture.addEventListener('pointermove', (event) => this.point(event));
    this.picture.addEventListener('pointerdown', (event) => this.point(event));
    this.picture.addEventListener('pointerleave', () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(parent);
    this.points = [];
  }

  /** Draws the points of the last 15 minutes, or of the whole capture of a report. */
  update(points, measure, live, emptyText) {
    Object.assign(this, { points, measure, live, emptyText });
    this.draw();
  }

  rate(point) {
    const seconds = point.seconds || 1;
    return this.measure.name === 'bytes' ? (8 * point.bytes) / seconds : point.packets / seconds;
  }

  text(rate) {
    return this.measure.name === 'bytes' ? bitsText(rate) : `${short(rate)}${NB}packets/s`;
  }

  draw() {
    if (!this.measure) return;
    const points = this.points;
    show(this.empty, points.length === 0);
    this.picture.classList.toggle('none', points.length === 0);
    setText(this.empty, points.length === 0 ? this.emptyText : '');
    if (points.length === 0) {
      setText(this.note, '');
      return;
    }
    const width = Math.max(200, this.canvas.clientWidth);
    const height = width < 500 ? 128 : 156;
    const [left, top, bottom] = [0, 18, 34];
    const floor = height - bottom;
    const last = points[points.length - 1].end;
    const begin = points[0].end - points[0].seconds;
    this.long = SPANS.find((long) => last - begin <= long) || SPANS[SPANS.length - 1];
    const first = this.live ? last - this.long : begin;
    const span = Math.max(last - first, 1e-3);
    const most = ceiling(Math.max(...points.map((point) => this.rate(point))));
    const x = (time) => left + ((time - first) / span) * (width - left);
    const y = (rate) => floor - (rate / most) * (floor - top);
    this.place = { x, y, first, span, width, floor };
    set(this.picture, 'viewBox', `0 0 ${width} ${height}`);
    set(this.picture, 'height', height);
    set(this.picture, 'width', width);

    const parts = [];
    for (const share of [0.5, 1]) {
      parts.push(svg('line', { class: 'grid', x1: left, x2: width, y1: y(most * share), y2: y(most * share) }));
    }
    parts.push(svg('line', { class: 'axis', x1: left, x2: width, y1: floor + 0.5, y2: floor + 0.5 }));
    // Few windows are drawn as steps, many points as a line.
    const steps = points.length <= 40 && !this.live;
    const times = (point) => (steps ? [point.end - point.seconds, point.end] : [point.end - point.seconds / 2]);
    const line = points.flatMap((point) => times(point).map((time) => `${x(time).toFixed(1)},${y(this.rate(point)).toFixed(1)}`));
    const [from, to] = [line[0], line[line.length - 1]].map((place) => place.split(',')[0]);
    parts.push(svg('path', { class: 'area', d: `M${from},${floor}L${line.join('L')}L${to},${floor}Z` }));
    parts.push(svg('path', { class: 'line', d: `M${line.join('L')}` }));
    const lost = points.filter((point) => point.dropped > 0);
    const worst = Math.max(1, ...lost.map((point) => point.dropped));
    for (const point of lost) {
      const at = x(point.end - point.seconds / 2);
      parts.push(svg('line', { class: 'lost', x1: at, x2: at, y1: floor + 3, y2: floor + 5 + 9 * Math.sqrt(point.dropped / worst) }));
    }
    for (const share of [0.5, 1]) {
      parts.push(svg('text', { class: 'label', x: 0, y: y(most * share) - 4 }, this.text(most * share).replace(/\.0+(?=\D)|(?<=\.\d)0(?=\D)/, '')));
    }
    parts.push(...this.times(first, last, x, height - 4, width));
    this.cursor = svg('g', { class: 'cursor' });
    parts.push(this.cursor);
    this.picture.replaceChildren(...parts);

    const now = this.rate(points[points.length - 1]);
    const peak = Math.max(...points.map((point) => this.rate(point)));
    const drops = lost.reduce((sum, point) => sum + point.dropped, 0);
    const dropped = drops > 0 ? `, ${whole(drops)} packets lost` : '';
    set(this.picture, 'aria-label', `Traffic, ${this.live ? `last ${lasting(this.long)}` : 'windows of the capture'}: at last ${this.text(now)}, at most ${this.text(peak)}${dropped}`);
    setText(this.note, (this.live ? `last ${lasting(this.long)}` : `${points.length} windows, times in UTC`) + `, peak ${this.text(peak)}${dropped}`);
  }

  times(first, last, x, y, width) {
    const labels = [];
    if (this.live) {
      const step = this.long / (width < 500 ? 3 : 5);
      for (let ago = this.long; ago >= 0; ago -= step) {
        const at = x(last - ago);
        const anchor = ago === this.long ? 'start' : ago === 0 ? 'end' : 'middle';
        labels.push(svg('text', { class: 'label', x: at, y, 'text-anchor': anchor }, clock(last - ago, this.long > 300)));
      }
      return labels;
    }
    const count = width < 500 ? 2 : 5;
    for (let n = 0; n <= count; n += 1) {
      const anchor = n === 0 ? 'start' : n === count ? 'end' : 'middle';
      const time = first + ((last - first) * n) / count;
      labels.push(svg('text', { class: 'label', x: x(time), y, 'text-anchor': anchor }, clock(time)));
    }
    return labels;
  }

  point(event) {
    if (!this.cursor || !this.place) return;
    this.cursor.replaceChildren();
    setText(this.read, '');
    if (!event) return;
    const { first, span, width, x, y, floor } = this.place;
    const box = this.picture.getBoundingClientRect();
    const time = first + ((event.clientX - box.left) / box.width) * span;
    let near = null;
    for (const point of this.points) {
      const away = Math.abs(point.end - point.seconds / 2 - time);
      if (!near || away < near.away) near = { point, away };
    }
    if (!near) return;
    const { point } = near;
    const at = Math.min(width, x(point.end - point.seconds / 2));
    this.cursor.append(
      svg('line', { x1: at, x2: at, y1: 0, y2: floor }),
      svg('circle', { cx: at, cy: y(this.rate(point)), r: 3.5 }),
    );
    const lost = point.dropped > 0 ? `, ${whole(point.dropped)} lost` : '';
    setText(this.read, `${clock(point.end - point.seconds)}${zoneText()}  ${this.text(this.rate(point))}${lost}`);
  }
}

/** A line chart without axes, for a row; `most` is the value at the upper edge. */
function sparkline(values, lost, most, width, height, label) {
  // A single point is drawn as a horizontal line.
  if (values.length === 1) values = [values[0], values[0]];
  const count = Math.max(2, values.length);
  const x = (at) => (at / (count - 1)) * width;
  const y = (value) => height - 1.5 - (value / most) * (height - 4);
  const line = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join('L');
  const picture = svg('svg', { class: values.some((value) => value > 0) ? 'spark' : 'spark flat', viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  if (values.length > 1) {
    picture.append(svg('path', { class: 'area', d: `M0,${height}L${line}L${width},${height}Z` }), svg('path', { class: 'line', d: `M${line}` }));
  }
  (lost || []).forEach((value, at) => {
    if (value > 0) picture.append(svg('line', { class: 'lost', x1: x(at), x2: x(at), y1: height - 4, y2: height }));
  });
  return picture;
}

/** A bar for each window in order, with whiskers for the interval; unknown values are left out. */
function windowBars(windows, measure, width, height) {
  const known = windows.filter((one) => one.row);
  const most = ceiling(Math.max(1, ...known.map((one) => measure.high(one.row))));
  const step = Math.min(48, (width - 2) / Math.max(windows.length, 6));
  const floor = height - 16;
  const y = (value) => floor - (value / most) * (floor - 6);
  const label = `The last ${windows.length} windows: ${known.map((one) => `${clock(one.start)} ${measure.text(measure.value(one.row))}`).join(', ')}`;
  const picture = svg('svg', { class: 'windows', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label });
  picture.append(svg('line', { class: 'axis', x1: 0, x2: width, y1: floor + 0.5, y2: floor + 0.5 }));
  windows.forEach((one, at) => {
    const from = at * step;
    const title = svg('title', {}, one.row
      ? `${clock(one.start)}${zoneText()}: ${measure.text(measure.value(one.row))} ${intervalText(measure, one.row)}`
      : `${clock(one.start)}${zoneText()}: not known`);
    const group = svg('g', {}, title);
    if (one.row) {
      const high = y(measure.value(one.row));
      group.append(svg('rect', { class: one.current ? 'block current' : 'block', x: from + 1, y: Math.min(high, floor - 1), width: Math.max(1, step - 3), height: Math.max(1, floor - high) }));
      if (!isExact(measure, one.row)) {
        const middle = from + step / 2 - 0.5;
        group.append(svg('line', { class: 'whisker', x1: middle, x2: middle, y1: y(measure.low(one.row)), y2: y(measure.high(one.row)) }));
      }
    } else {
      group.append(svg('text', { class: 'label', x: from + step / 2, y: floor - 4, 'text-anchor': 'middle' }, '?'));
    }
    picture.append(group);
    if (at === 0 || at === windows.length - 1) {
      const anchor = at === 0 ? 'start' : 'end';
      if (at === 0 || windows.length > 3) picture.append(svg('text', { class: 'label', x: at === 0 ? 0 : from + step, y: height - 3, 'text-anchor': anchor }, clock(one.start)));
    }
  });
  return picture;
}
