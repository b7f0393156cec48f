// Buttons, keyboard shortcuts, dark and light theme, and the start of the page.

const THEMES = ['auto', 'light', 'dark'];

function stored(value) {
  try {
    if (value !== undefined) localStorage.setItem('crane-theme', value);
    return localStorage.getItem('crane-theme');
  } catch {
    return null;
  }
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
}

function theme(value) {
  document.documentElement.dataset.theme = THEMES.includes(value) ? value : 'auto';
  setText(byId('theme-icon'), isDark() ? '☀' : '☾');
}

function toggleTheme() {
  const next = isDark() ? 'light' : 'dark';
  theme(next);
  stored(next);
}

function pause() {
  if (!source.live) return;
  paused = !paused;
  drawHead();
  askNow();
}

const KEYS = () => [
  [`1 – ${TABS.length}`, TABS.map(([, title]) => title).join(', ')],
  ['/', 'search'], ['Esc', 'close what was found'], ['b', 'bytes or packets'], ['s', 'sort by the whole window, the last 10 s or 2 s'], ['w', 'this window or the last complete one'],
  ['i', 'all interfaces'], ['p', 'pause'], ['t', 'dark or light'], ['?', 'this'],
];

function help() {
  const dialog = byId('help');
  if (dialog.open) return dialog.close();
  dialog.replaceChildren(
    el('h2', { id: 'help-title' }, 'Keys'),
    el('dl', {}, KEYS().flatMap(([key, what]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)])),
    el('h2', {}, 'Bars and search'),
    el('p', {}, 'A bar shows the packets or bytes of a row in the window. A thin whisker on it is the 90 % interval; no whisker: exact. “Exact” means that every pair has a counter of its own.'),
    el('p', {}, 'Search for an address, a pair (10.0.0.1 10.0.0.2), a network (10.0.0.0/8), a configured name, a service (tcp/443, or “service https”; also behind a pair), or any part of what is listed.'),
    el('form', { method: 'dialog' }, el('button', { autofocus: true }, 'Close')),
  );
  return dialog.showModal();
}

function toggle(name) {
  const values = CHOICES[name].map(([value]) => value);
  navigate({ [name]: values[(values.indexOf(state[name]) + 1) % values.length] });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches('input, select, textarea');
  if (event.key === 'Escape') {
    if (byId('help').open) return;
    if (typing) event.target.blur();
    if (state.q) navigate({ q: '' });
    return;
  }
  if (typing || byId('help').open) return;
  const actions = {
    '/': () => byId('query').focus(), '?': help, t: toggleTheme, p: pause,
    b: () => toggle('by'), s: () => source.live && toggle('sort'), w: () => source.live && toggle('window'), i: () => seen.all.length > 1 && navigate({ if: ALL, q: '' }),
  };
  const tab = TABS[Number(event.key) - 1];
  const action = tab ? () => navigate({ tab: tab[0] }) : actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

function onTabKey(event) {
  const at = TABS.findIndex(([name]) => name === state.tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const [name] = TABS[(to + TABS.length) % TABS.length];
  navigate({ tab: name });
  byId(`tab-${name}`).focus();
}

function start() {
  theme(stored() || 'auto');
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => theme(document.documentElement.dataset.theme));
  byId('tabs').append(...TABS.map(([name, title], at) => el('button', {
    type: 'button', role: 'tab', id: `tab-${name}`, 'data-tab': name, 'aria-controls': 'panel', onclick: () => navigate({ tab: name }),
  }, title, el('kbd', { 'aria-hidden': 'true' }, String(at + 1)))));
  byId('tabs').addEventListener('keydown', onTabKey);
  const groups = source.live ? ['window', 'sort', 'by'] : ['by'];
  const labels = { by: 'Measure', window: 'Window', sort: 'Sorted by' };
  byId('choices').append(...groups.map((name) => el('div', { class: 'choice', role: 'group', 'data-name': name, 'aria-label': labels[name], title: labels[name] },
    CHOICES[name].map(([value, title]) => el('button', { type: 'button', 'data-value': value, onclick: () => navigate({ [name]: value }) }, title)))));
  byId('interface').addEventListener('change', (event) => navigate({ if: event.target.value, q: '' }));
  byId('search').addEventListener('submit', (event) => {
    event.preventDefault();
    navigate({ q: byId('query').value.trim() });
    byId('query').blur();
  });
  byId('query').addEventListener('search', (event) => {
    if (event.target.value === '') navigate({ q: '' });
  });
  byId('live').addEventListener('click', pause);
  byId('theme').addEventListener('click', toggleTheme);
  byId('help-button').addEventListener('click', help);
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    byId('main').focus();
  });
  document.addEventListener('keydown', onKey);
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[data-query]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    navigate({ q: link.dataset.query });
    byId('found').scrollIntoView({ block: 'nearest', behavior: 'auto' });
  });
  document.addEventListener('visibilitychange', askNow);
  addEventListener('hashchange', () => { readHash(); applyUrl(); });
  addEventListener('popstate', () => { readHash(); applyUrl(); });
  if (!source.live) {
    byId('query').placeholder = 'search the lists of this report';
    setText(byId('footer'), `Made by crane-agent ${source.version} replay. Self-contained file: search finds what is in its lists.`);
  } else {
    byId('footer').append('The same as ', el('a', { href: '/metrics' }, 'metrics'), ' and as ', el('a', { href: '/api/v1/heavy-hitters' }, 'JSON'), '.');
  }
  readHash();
  applyUrl();
}

start();
