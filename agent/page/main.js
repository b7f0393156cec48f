// The state of the page, and the requests to the agent once a second.

const TABS = [
  ['pairs', 'pairs', () => new ListTab('pairs', 'pairs')],
  ['conversations', 'conversations', () => new ListTab('conversations', 'conversations')],
  ['sources', 'sources', () => new ListTab('nodes', 'sources')],
  ['destinations', 'destinations', () => new ListTab('nodes', 'destinations')],
  ['fan-out', 'fan-out', () => new FanTab()],
  ['services', 'services', () => new ServiceTab()],
  ['networks', 'networks', () => new NetworkTab()],
  ['graph', 'graph', () => new GraphTab()],
  ['sketch', 'sketch', () => new SketchTab()],
];
const EVERY = 1000;
const ALL = '*';
const CHOICES = {
  by: [['bytes', 'bytes'], ['packets', 'packets']],
  sort: [['sum', 'whole window'], ['rate_10s', 'last 10 s'], ['rate_2s', 'last 2 s']],
  window: [['now', 'now'], ['last', 'last complete']],
};

const report = readReport();
const source = report ? reportSource(report) : agent;
if (report) showUtc();
const NOUN = source.live ? 'interfaces' : 'captures';
const state = { if: '', tab: 'pairs', by: 'bytes', sort: 'sum', window: 'now', q: '' };
/** A time before any other, so that data with this time is requested at once. */
const NEVER = -Infinity;
const seen = { all: [], allAt: NEVER, history: new Map(), historyAt: NEVER, overviewAt: NEVER, past: new Map(), before: null, rate: null, info: {} };
let view = { past: [], lists: null, state: null, measure: MEASURES.bytes, interface: '', lost: null, live: source.live };
let [paused, gone, again] = [false, null, 0];
/** Identifies what the lists show: interface, window, measure, order. */
let subject = '';

const tabs = new Map(TABS.map(([name, , make]) => [name, { make, tab: null }]));
const numbers = new Numbers(byId('numbers'));
const chart = new TrafficChart(byId('chart-panel'));
const notes = new Notable(byId('notable'));
const found = new Found(byId('found'));
const overview = new Overview(byId('overview'), NOUN);

/** Reads the state of the page from the URL. */
function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  // State that is missing in the URL is kept. Only the search is cleared by a URL with an interface.
  for (const name of Object.keys(state)) {
    if (given.has(name)) state[name] = given.get(name);
  }
  if (given.has('if') && !given.has('q')) state.q = '';
  if (!tabs.has(state.tab)) state.tab = 'pairs';
  if (!MEASURES[state.by] || state.by === 'peers') state.by = 'bytes';
  if (state.window !== 'last') state.window = 'now';
  if (!CHOICES.sort.some(([value]) => value === state.sort)) state.sort = 'sum';
}

/** Changes the state and the URL. `quietly` adds no entry to the history. */
function navigate(change, quietly) {
  Object.assign(state, change);
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value && !(name === 'window' && value === 'now') && !(name === 'by' && value === 'bytes') && !(name === 'sort' && value === 'sum')) given.set(name, value);
  }
  const hash = `#${given}`;
  if (location.hash !== hash) history[quietly ? 'replaceState' : 'pushState'](null, '', hash);
  applyUrl();
}

/** Shows what the URL selects, first with the data that is present, then with new data. */
function applyUrl() {
  const input = byId('query');
  if (document.activeElement !== input) input.value = state.q;
  const isAll = state.if === ALL;
  show(byId('overview'), isAll);
  for (const id of ['numbers', 'chart-panel', 'main']) show(byId(id), !isAll);
  show(document.querySelector('.ask'), !isAll);
  show(byId('found'), !isAll && state.q !== '');
  found.begin(`${state.q}`);
  if (view.interface !== state.if) {
    Object.assign(seen, { before: null, rate: null, historyAt: NEVER });
    view = { ...view, interface: state.if, lists: null, sketch: null, state: null, lost: null, past: seen.past.get(state.if) || [] };
  }
  view.measure = MEASURES[state.by];
  drawTabs();
  drawChoices();
  draw();
  askNow();
}

function drawTabs() {
  for (const button of byId('tabs').children) {
    const chosen = button.dataset.tab === state.tab;
    set(button, 'aria-selected', chosen);
    set(button, 'tabindex', chosen ? 0 : -1);
    if (chosen) reveal(button);
  }
  const chosen = tabs.get(state.tab);
  chosen.tab = chosen.tab || chosen.make();
  const panel = byId('panel');
  set(panel, 'aria-labelledby', `tab-${state.tab}`);
  if (panel.firstChild !== chosen.tab.node) panel.replaceChildren(chosen.tab.node);
}

/** Scrolls the row of tabs, but not the page, until a tab is visible. */
function reveal(button) {
  const strip = button.parentNode;
  const [left, right] = [button.offsetLeft - strip.offsetLeft - 24, button.offsetLeft - strip.offsetLeft + button.offsetWidth + 24];
  if (left < strip.scrollLeft) strip.scrollLeft = left;
  else if (right > strip.scrollLeft + strip.clientWidth) strip.scrollLeft = right - strip.clientWidth;
}

function drawChoices() {
  for (const group of byId('choices').children) {
    const { name } = group.dataset;
    for (const button of group.children) set(button, 'aria-pressed', state[name] === button.dataset.value);
  }
}

function draw() {
  document.body.classList.toggle('stale', Boolean(gone));
  drawHead();
  if (state.if === ALL) {
    overview.update(seen.all, seen.history, view.measure, seen.info.waiting);
    return;
  }
  view.emptyText = emptyText();
  numbers.update(view, seen.rate);
  const points = seen.history.get(state.if) || [];
  byId('chart-panel').classList.toggle('bare', !source.live && points.length === 0);
  chart.update(points, view.measure, source.live, source.live ? 'The chart begins in a few seconds.' : 'No chart: replay with --window to see traffic over time.');
  notes.update(view);
  tabs.get(state.tab).tab.update(view);
}

/** The text of an empty list. */
function emptyText() {
  if (gone) return 'The agent does not answer.';
  if (seen.info.interfaces && seen.info.interfaces.length === 0) return 'Nothing is captured yet.';
  if (!view.state) return 'Asking the agent …';
  if (!view.state.up && !view.state.ended) return `${state.if} is not captured: it is down, or the right to capture is missing. The agent's log says more.`;
  if (view.state.packets === 0) return `No packet has come on ${state.if} yet.`;
  if (state.window === 'last' && !view.state.last) return 'The first window is not complete yet. Look at the current one: “now”.';
  if (view.lists && view.lists.packets === 0) return 'No packet with addresses in this window so far.';
  return 'Nothing here yet.';
}

function drawHead() {
  const host = seen.info.host || '';
  setText(byId('host'), source.live ? host : 'report');
  document.title = [state.if && state.if !== ALL ? state.if : '', host, source.live ? 'crane-agent' : 'crane-agent report'].filter(Boolean).join(' · ');
  const select = byId('interface');
  const names = seen.all.map((one) => one.interface);
  if (state.if && state.if !== ALL && !names.includes(state.if)) names.unshift(state.if);
  const several = names.length > 1;
  const wanted = several ? [ALL, ...names] : names;
  if ([...select.options].map((option) => option.value).join('\n') !== wanted.join('\n')) {
    select.replaceChildren(...wanted.map((name) => el('option', { value: name }, name === ALL ? `all ${names.length} ${NOUN}` : shortName(name, names))));
  }
  if (select.value !== state.if) select.value = state.if;
  select.disabled = wanted.length < 2;
  const windowText = describeWindow();
  view.windowText = windowText;
  setText(byId('window'), windowText);
  const [text, kind] = !source.live ? ['report', 'report'] : gone ? ['agent gone', 'gone'] : paused ? ['paused', 'paused'] : ['live', 'on'];
  setText(byId('live-text'), text);
  set(byId('live'), 'class', `live ${kind}`);
  set(byId('live'), 'aria-pressed', paused);
  show(byId('live'), source.live);
}

/** The name of a file without its folder, if it is unique. */
function shortName(name, names) {
  const base = (text) => text.split('/').pop() || text;
  return names.filter((other) => base(other) === base(name)).length > 1 ? name : base(name);
}

/** A duration and the length that it is a part of, if that is known: `58 of 60 s`. */
function partOf(seconds, length) {
  const [part, whole] = [lasting(seconds), length ? lasting(length) : ''];
  if (!whole) return part;
  const unit = (text) => text.slice(text.indexOf(NB));
  const same = unit(part) === unit(whole) && !part.includes(' ');
  return `${same ? part.slice(0, part.indexOf(NB)) : part} of ${whole}`;
}

function describeWindow() {
  if (state.if === ALL || !view.state) return '';
  const { last } = view.state;
  // The window of the lists, because the state may be slightly older.
  const current = view.lists && view.lists.window === 'current' ? view.lists : view.state.current;
  if (!source.live) {
    if (!current.start) return current.packets > 0 ? 'no time stamps' : 'no packets';
    return `${span(current.start, current.end)}, ${lasting(current.seconds)}`;
  }
  if (view.which === 'last' && last) return `last window: ${lasting(last.end - last.start)}, ended ${clock(last.end, false, 'UTC')}${NB}UTC`;
  if (view.state.ended) return `${lasting(current.seconds)}, all packets read`;
  const length = current.end && current.start ? current.end - current.start : null;
  return `current window: ${partOf(Math.max(1, Math.floor(current.seconds)), length && Math.round(length))}`;
}

/** The window to show: the current one, or the last one if the current one has just begun. */
function windowToAsk({ current, last }) {
  if (!last) return 'current';
  if (state.window === 'last') return 'last';
  const length = current.end && current.start ? current.end - current.start : Infinity;
  return current.packets > 0 && current.seconds >= Math.min(10, length / 6) ? 'current' : 'last';
}

/** Requests all data that the page shows. */
async function askAgent() {
  const time = performance.now();
  const all = seen.all.length === 0 || time - seen.allAt > 5000;
  const isAll = state.if === ALL;
  const info = await source.interfaces(all || isAll || !state.if ? undefined : state.if).catch(async (error) => {
    // The agent refuses the name of an interface that was removed.
    if (error instanceof Refused && error.status === 400) return source.interfaces();
    throw error;
  });
  seen.info = info;
  if (all || isAll || !state.if) Object.assign(seen, { all: info.interfaces, allAt: time });
  if (!state.if && info.interfaces.length > 0) {
    const busiest = [...info.interfaces].sort((a, b) => b.current.bytes + (b.last ? b.last.bytes : 0) - a.current.bytes - (a.last ? a.last.bytes : 0))[0];
    return navigate({ if: busiest.interface }, true);
  }
  if (isAll) return askOverview(time);
  const one = info.interfaces.find((known) => known.interface === state.if);
  warn(info, one);
  if (!one) return draw();
  measureRate(one, time);
  const interface_ = state.if;
  const which = windowToAsk(one);
  const top = state.tab === 'graph' ? 400 : 100;
  const asks = [source.lists(interface_, which, state.sort === 'sum' ? state.by : state.sort, top)];
  asks.push(time - seen.historyAt > 5000 ? source.history(interface_) : null);
  asks.push(state.tab === 'sketch' ? source.sketch(interface_, which) : null);
  // Sent together, so that the answers refer to the same packets.
  const query = state.q;
  const past = seen.past.get(interface_) || [];
  asks.push(query ? found.ask({ interface: interface_, which, state: one, past, by: state.by }, source, query) : null);
  const [lists, history, sketch, answer] = await Promise.all(asks);
  await remember(one, interface_);
  if (interface_ !== state.if) return undefined;
  // If a new window has begun meanwhile, it has few packets, so the previous lists stay.
  const turned = which === 'current' && lists && one.current.start !== null && lists.start !== one.current.start;
  if (turned && view.lists) return undefined;
  if (history) {
    for (const [name, points] of history) seen.history.set(name, points);
    seen.historyAt = time;
  }
  const total = Object.values(one.dropped).reduce((sum, count) => sum + count, 0);
  const points = seen.history.get(interface_) || [];
  const recent = points.reduce((sum, point) => sum + point.dropped, 0);
  view = { ...view, which, state: one, lists: lists || null, past: seen.past.get(interface_) || [], lost: source.live && points.length > 0 ? recent : total };
  if (sketch) view.sketch = sketch;
  subject = [interface_, which, lists && lists.start, state.by, state.sort].join(' ');
  draw();
  if (query && query === state.q) found.update(view, source, query, answer);
  return undefined;
}

async function askOverview(time) {
  if (time - seen.overviewAt > 5000) {
    seen.overviewAt = time;
    for (const [name, points] of await source.history(undefined, source.live ? 60 : undefined)) seen.history.set(name, points);
  }
  warn(seen.info, true);
  draw();
}

/** Keeps the lists of ended windows, to find new pairs and to draw charts of searches. */
async function remember(one, name) {
  if (!source.live || !one.last) return;
  const past = seen.past.get(name) || [];
  if (past.some((lists) => lists.start === one.last.start)) return;
  const lists = await source.lists(name, 'last', state.by, 100);
  if (!lists || past.some((known) => known.start === lists.start)) return;
  seen.past.set(name, [...past, lists].slice(-20));
}

function measureRate(one, time) {
  if (one.ended) {
    const seconds = one.current.seconds || (one.last && one.last.seconds) || 0;
    seen.rate = seconds > 0 ? { bytes: one.bytes / seconds, packets: one.packets / seconds, mean: true } : null;
    return;
  }
  const before = seen.before;
  const now = { bytes: one.bytes, packets: one.packets, time };
  seen.before = now;
  if (!before || now.packets < before.packets) {
    const { current, last } = one;
    const window = current.seconds > 5 || !last ? current : last;
    const seconds = seenSeconds(window);
    seen.rate = seconds > 0 ? { bytes: window.bytes / seconds, packets: window.packets / seconds } : null;
    return;
  }
  const seconds = Math.max(0.2, (time - before.time) / 1000);
  const latest = { bytes: (now.bytes - before.bytes) / seconds, packets: (now.packets - before.packets) / seconds };
  const share = seen.rate ? Math.min(1, 0.4 * seconds) : 1;
  const mix = (name) => (seen.rate ? seen.rate[name] : 0) * (1 - share) + latest[name] * share;
  seen.rate = { bytes: mix('bytes'), packets: mix('packets') };
}

function banner(text, kind) {
  const node = byId('banner');
  show(node, Boolean(text));
  if (text) {
    set(node, 'class', `banner ${kind || ''}`);
    setText(node, text);
  }
}

/** Shows problems that the agent reports. */
function warn(info, one) {
  if (!source.live) return banner(report.captures.some((capture) => capture.error) ? report.captures.map((capture) => capture.error).filter(Boolean).join('; ') : '');
  if (info.age_seconds > 3) return banner(`These numbers are ${lasting(info.age_seconds)} old: the agent is busier than it can be.`, 'alarm');
  if (info.interfaces.length === 0) return banner(info.waiting.length > 0 ? `Nothing is captured yet. Waiting for: ${info.waiting.join(', ')}.` : 'Nothing is captured yet.', 'alarm');
  if (!one) return banner(`${state.if} is gone. Its window is kept for a while; choose another interface, or wait for it.`, 'alarm');
  if (info.waiting.length > 0) return banner(`Waiting for: ${info.waiting.join(', ')}.`);
  return banner('');
}

function trouble(error) {
  if (error instanceof Refused) {
    if (error.status === 401) return banner('The agent asks for a password. Reload the page to give it.', 'alarm');
    if (error.status === 503 || error.status === 429) return banner(`The agent is busy: ${error.message}.`, 'alarm');
    return banner(error.message, 'alarm');
  }
  if (!gone) {
    gone = Date.now() / 1000;
    Object.assign(seen, { before: null });
  }
  banner(`The agent has not answered since ${clock(gone)}. Trying again every second; what is below is as of then.`, 'alarm');
  return draw();
}

let asking = false;

async function round() {
  clearTimeout(again);
  if (asking || document.hidden || (paused && view.state && view.interface === view.state.interface && !state.q)) return;
  asking = true;
  const start = performance.now();
  try {
    await askAgent();
    if (gone) {
      gone = null;
      Object.assign(seen, { allAt: NEVER, historyAt: NEVER, overviewAt: NEVER });
      banner('');
      draw();
    }
  } catch (error) {
    trouble(error);
  }
  asking = false;
  if (source.live && !paused && !document.hidden) again = setTimeout(round, Math.max(250, EVERY - (performance.now() - start)));
}

/** Requests data at once instead of after the usual second. */
function askNow() {
  clearTimeout(again);
  if (asking) again = setTimeout(askNow, 60);
  else round();
}
