// Requests to the agent over HTTP.

/** In milliseconds; longer than the agent takes for an answer about the current window. */
const TIMEOUT = 8000;

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Sends a request. Throws a TypeError if there is no answer, and Refused if the agent refuses. */
async function ask(path, parameters) {
  const given = Object.entries(parameters || {}).filter(([, value]) => value !== undefined);
  const query = given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  const answer = await fetch(`/api/v1/${path}${query ? '?' + query : ''}`, {
    signal: AbortSignal.timeout(TIMEOUT),
    cache: 'no-store',
    credentials: 'same-origin',
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.error || `the agent says ${answer.status}`);
  return body;
}

/** The data source of a page that a running agent serves. */
const agent = {
  live: true,
  interfaces: (name) => ask('interfaces', { interface: name }),
  async lists(name, window, by, top) {
    const answer = await ask('heavy-hitters', { interface: name, window, by, top, rates: true });
    return answer.interfaces[0];
  },
  /** Points of the chart, oldest first: end, length, traffic. */
  async history(name, points) {
    const answer = await ask('history', { interface: name, points });
    const all = new Map();
    for (const one of answer.interfaces) {
      const count = one.bytes.length;
      const step = answer.step_seconds;
      all.set(one.interface, one.bytes.map((bytes, at) => ({
        end: answer.end - (count - 1 - at) * step, seconds: step, bytes,
        packets: one.packets[at], dropped: one.dropped[at],
      })));
    }
    return all;
  },
  async sketch(name, window) {
    return (await ask('sketch', { interface: name, window })).interfaces[0];
  },
  async node(ip, name, window, by) {
    const answer = await ask('node', { ip, interface: name, window, by, top: 20, services: true, rates: true });
    return { name: answer.name, known: knownText(answer), ...answer.interfaces[0] };
  },
  async flow(src, dst, service, name, window, by) {
    const answer = await ask('flow', { src, dst, service, both: true, services: true, by, interface: name, window });
    const found = answer.interfaces[0];
    const known = [knownText(answer, 'src_'), knownText(answer, 'dst_')].filter(Boolean).join(' → ');
    return found && { names: [answer.src_name, answer.dst_name], known, ...found };
  },
  /** The traffic of a service, and its heaviest pairs. */
  async service(service, name, window, by) {
    return (await ask('service', { service, interface: name, window, by, top: 50 })).interfaces[0];
  },
};
