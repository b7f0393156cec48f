// The data source of a report, whose data is inside the page. It has the same methods as a running
// agent, but answers only from the lists of the report.

function readReport() {
  const data = document.getElementById('data');
  return data ? JSON.parse(data.textContent) : null;
}

function reportSource(data) {
  const captures = new Map();
  for (const capture of data.captures) {
    const base = capture.path.split('/').pop() || capture.path;
    let name = capture.interface ? `${base} (${capture.interface})` : base;
    for (let n = 2; captures.has(name); n += 1) name = `${base} #${n}`;
    captures.set(name, capture);
  }
  const window = (capture) => ({
    start: capture.start, end: capture.end, seconds: capture.seconds || 0,
    packets: capture.edges, bytes: bytesOf(capture), distinct_pairs: capture.pairs, exact: capture.exact,
  });
  const state = ([name, capture]) => ({
    interface: name, up: true, ended: true, error: capture.error,
    packets: capture.packets, bytes: capture.bytes, edges: capture.edges,
    ignored: capture.ignored, dropped: capture.dropped, protocols: capture.protocols,
    groups: capture.groups, layers: capture.layers, expansions: capture.expansions,
    memory_bytes: capture.memory_bytes, saturated: capture.saturated, current: window(capture), last: null,
  });
  return {
    live: false,
    captures,
    version: data.version,
    async interfaces(name) {
      const all = [...captures].filter(([known]) => name === undefined || known === name);
      return { host: '', version: data.version, waiting: [], age_seconds: 0, interfaces: all.map(state) };
    },
    async lists(name, which, by) {
      const capture = captures.get(name);
      const suffix = by === 'bytes' ? '_bytes' : '';
      // Lists in the order of bytes have names that end with `_bytes`.
      const ordered = Object.keys(capture).filter((key) => Array.isArray(capture[`${key}_bytes`]));
      const answer = { ...capture, interface: name, window: 'current', ...window(capture) };
      for (const list of ordered) answer[list === 'top' ? 'pairs' : list] = capture[list + suffix];
      return answer;
    },
    async history(name) {
      const all = new Map();
      for (const [known, capture] of captures) {
        if (name !== undefined && known !== name) continue;
        all.set(known, capture.windows.filter((one) => one.end !== null).map((one) => ({
          end: one.end, seconds: one.seconds, bytes: one.bytes, packets: one.packets, dropped: 0,
        })));
      }
      return all;
    },
    async sketch(name) {
      return { window: 'current', sketches: captures.get(name).sketch || {} };
    },
    /** The windows of the capture with the row of a pair. The row is missing if a window does not list it. */
    pairWindows(name, src, dst) {
      const windows = captures.get(name).windows.filter((one) => one.top.length > 0);
      return windows.map((one) => ({
        start: one.start, seconds: one.seconds,
        row: one.top.find((row) => row.src === src && row.dst === dst),
      }));
    },
  };
}

/** The number of bytes of all packets that have addresses. */
function bytesOf(capture) {
  const carried = Object.values(capture.protocols || {});
  return carried.reduce((sum, one) => sum + one.bytes, 0) || capture.bytes;
}
