// The page of an agent that replays a sample, as `make demo` does.

import { mkdirSync, writeFileSync } from 'node:fs';

import { agent, check, eventually, faults, freePort, LARGE, ok, open, PHONE, picture, run, sideways, stop, test, text, WORK } from './browser.mjs';

const TABS = ['pairs', 'conversations', 'sources', 'destinations', 'fan-out', 'services', 'networks', 'graph', 'sketch'];
const HEAVIEST = ['10.0.1.8', '192.0.2.1'];
const folder = `${WORK}/demo`;
const REPLAY = ['replay', 'sample.pcap', '--serve', '--loop', '--speed', '1', '--window', '20s'];

mkdirSync(folder, { recursive: true });
writeFileSync(`${folder}/agent.toml`, 'names_file = "networks.csv"\n');
writeFileSync(`${folder}/networks.csv`, '10.0.0.0/16,office\n192.0.2.0/24,servers\n10.200.0.0/16,branch\n172.16.0.0/12,guests\n2001:db8::/32,lab\n');
writeFileSync(`${folder}/small.toml`, '[sketch]\nmemory = "256KiB"\n');
// The password is `open sesame`.
writeFileSync(`${folder}/web.yml`, 'basic_auth_users:\n  somebody: $2b$04$//aiwz6rE9GglT9B27GJK.DY6eqWDAnpQAg6IKQ3aGFG.ceooaZvy\n');
writeFileSync(`${folder}/protected.toml`, '[export]\nweb_config = "web.yml"\n');

async function search(page, query) {
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  await page.locator('#query').fill(query);
  await page.keyboard.press('Enter');
  return eventually(`an answer about ${query}`, async () => {
    const parts = await Promise.all(['.verdict', '.facts', '.rows li'].map((part) => text(page, `#found ${part}`)));
    return !parts[0].includes('Asking') && parts.join('') !== '' && text(page, '#found');
  });
}

async function firstLook(chrome, at) {
  // A replay stores its first packets after some seconds.
  await eventually('packets', async () => (await (await fetch(`${at}api/v1/interfaces`)).json()).interfaces[0]?.edges > 0, 30);
  const start = Date.now();
  const page = await open(chrome, at);
  const top = await eventually('the top talker', async () => {
    const row = await text(page, '#panel .rows li');
    return HEAVIEST.every((ip) => row.includes(ip)) && row;
  }, 3);
  ok(`the heaviest pair after ${Date.now() - start} ms: ${top.replace(/\s+/g, ' ')}`);
  const size = (await (await fetch(at)).text()).length;
  check(size < 250_000, 'the page is small', size);
  ok(`${Math.round(size / 1024)} KiB in one document`);
  await eventually('the scan', async () => /10\.0\.1\.67\s+sends to [\d,]+ destinations \(scan\?\)/.test(await text(page, '#notable')), 20);
  await eventually('the flood', async () => /192\.0\.2\.4\s+receives from [\d,]+ sources \(flood\?\)/.test(await text(page, '#notable')), 20);
  ok('the scan and the flood are notable');
  await eventually('a chart', () => page.locator('.traffic .line').count(), 30);
  const numbers = await text(page, '#numbers');
  check(/Mbit\/s/.test(numbers) && /packets\/s/.test(numbers) && /exact/.test(numbers), 'five numbers', numbers);
  ok(`numbers: ${numbers.replace(/\s+/g, ' ')}`);
  return page;
}

/** Rates of the last seconds, and the order of rows by rate. */
async function rates(page) {
  const speeds = await eventually('rates of the last 2 s', async () => {
    const cells = await page.locator('#panel .rows li .rate_2s').allTextContents();
    return cells.filter((cell) => /bit\/s$/.test(cell)).length > 5 && cells;
  }, 10);
  ok(`${speeds.length} rows have a rate of the last 2 s: ${speeds[0]}`);
  await eventually('rates of the last 10 s', async () => /bit\/s$/.test(await text(page, '#panel .rows li .rate_10s')), 15);
  await page.keyboard.press('s');
  await page.keyboard.press('s');
  check(page.url().includes('sort=rate_2s'), 'the order is in the address', page.url());
  await eventually('an order by the last 2 s', async () => {
    const answer = await (await fetch(new URL(`/api/v1/heavy-hitters?window=current&by=rate_2s&top=5`, page.url()))).json();
    const first = answer.interfaces[0].pairs[0];
    const row = await text(page, '#panel .rows li');
    return first && row.includes(first.src) && row.includes(first.dst);
  }, 10);
  ok('rows are in the order of the last 2 s');
  await page.keyboard.press('s');
  check(!page.url().includes('sort='), 'the order of the window again', page.url());
}

async function searches(page) {
  let found = await search(page, '10.0.1.8 192.0.2.1');
  check(/10\.0\.1\.8 → 192\.0\.2\.1/.test(found) && /MiB|KiB/.test(found) && /exact/.test(found), 'a pair', found);
  found = await search(page, '10.0.1.67');
  check(/sends to/.test(found) && /destinations/.test(found) && /office/.test(found), 'a node', found);
  found = await search(page, '10.0/16');
  check(/10\.0\.0\.0\/16/.test(found) && /sent/.test(found) && /MiB|KiB/.test(found), 'a network', found);
  found = await search(page, 'servers');
  check(/servers/.test(found) && /received/.test(found) && /MiB|KiB/.test(found), 'a name', found);
  found = await search(page, '10.9.9.9 10.8.8.8');
  check(/no packets \(exact\)/.test(found), 'an address that never occurred', found);
  found = await search(page, 'rsync');
  check(/10\.0\.1\.8/.test(found), 'part of what is listed', found);
  found = await search(page, 'nobody-knows-this');
  check(/No list has/.test(found), 'nonsense', found);
  check(page.url().includes('q=nobody-knows-this'), 'the address holds the search', page.url());
  await page.keyboard.press('Escape');
  await eventually('the result is closed', async () => !(await page.locator('#found').isVisible()));
  ok('search: pair, node, network, name, never seen, part of a list');
}

async function keys(page) {
  for (const [at, tab] of TABS.entries()) {
    await page.keyboard.press(String(at + 1));
    check(page.url().includes(`tab=${tab}`), `key ${at + 1}`, page.url());
    check(await page.locator(`#tab-${tab}[aria-selected="true"]`).count() === 1, `${tab} is selected`);
  }
  await page.locator('#tab-sketch').focus();
  await page.keyboard.press('ArrowRight');
  check(page.url().includes('tab=pairs'), 'arrows move between tabs', page.url());
  await page.keyboard.press('t');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  check(await theme() === 'light', 't is light', await theme());
  await page.reload();
  check(await theme() === 'light', 'the theme is kept', await theme());
  await page.keyboard.press('t');
  await page.keyboard.press('?');
  check(await page.locator('#help[open]').count() === 1, '? helps');
  await page.keyboard.press('Escape');
  await page.keyboard.press('p');
  await eventually('p pauses', async () => (await text(page, '#live')).includes('paused'));
  const asked = page.asked.length;
  await page.waitForTimeout(2500);
  check(page.asked.length <= asked + 4, 'no requests while paused', page.asked.length - asked);
  await page.keyboard.press('p');
  await page.locator('#panel .rows li').nth(2).hover();
  await page.keyboard.press('b');
  await eventually('b is for packets', async () => page.url().includes('by=packets'));
  await eventually('another order, also under the pointer', () => page.evaluate(() => {
    const shares = [...document.querySelectorAll('#panel .rows li:not(.gone) .share')].map((node) => parseFloat(node.textContent));
    return shares.length > 10 && shares.every((share, at) => at === 0 || !(share > shares[at - 1]));
  }));
  await page.mouse.move(0, 0);
  await page.keyboard.press('b');
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { value, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  await page.waitForTimeout(1000);
  const before = page.asked.length;
  await page.waitForTimeout(2500);
  check(page.asked.length === before, 'no requests while hidden', page.asked.length - before);
  await hide(false);
  await eventually('requests continue', async () => page.asked.length > before);
  ok('no requests while the page is hidden');
  ok('keys: 1 to 9, arrows, /, Escape, t, p, b, ?');
}

async function everyTab(chrome, at) {
  for (const dark of [true, false]) {
    for (const size of [LARGE, PHONE]) {
      const page = await open(chrome, `${at}#tab=pairs`, { dark, size });
      for (const tab of TABS) {
        await page.evaluate((name) => { location.hash = `tab=${name}`; }, tab);
        await eventually(`${tab} shows something`, async () => (await text(page, '#panel')).length > 20 || page.locator('#panel .graph .node').count());
        await page.waitForTimeout(400);
        check(await sideways(page) <= 0, `no sideways scrolling in ${tab} at ${size.width}`, await sideways(page));
        if (size === LARGE || tab === 'pairs') {
          const bad = await faults(page);
          check(bad.length === 0, `axe in ${tab}, ${dark ? 'dark' : 'light'}, ${size.width}`, bad);
        }
      }
      check(page.complaints.length === 0, 'no complaints', page.complaints);
      await page.context().close();
    }
  }
  ok('axe finds nothing serious in any tab, dark and light; nothing scrolls sideways at 1400 and 390');
}

async function pictures(chrome, at) {
  const scenes = [
    ['page-dark', '#tab=pairs', {}], ['page-light', '#tab=pairs', { dark: false }], ['page-phone', '#tab=pairs', { size: PHONE }],
    ['page-graph', '#tab=graph', { size: { width: 1400, height: 1080 } }], ['page-search', '#q=10.0.1.8', { dark: false }],
    ['page-networks', '#tab=networks', {}], ['page-fan-out', '#tab=fan-out', { dark: false }],
  ];
  for (const [name, hash, options] of scenes) {
    const page = await open(chrome, at + hash, options);
    await page.waitForTimeout(3000);
    // The scan is in the first half of the capture.
    if (hash === '#tab=pairs') await eventually('the scan', async () => (await text(page, '#notable')).includes('scan?'), 60);
    await picture(page, name);
    await page.context().close();
  }
}

async function graph(chrome, at) {
  const page = await open(chrome, `${at}#tab=graph`);
  await eventually('nodes', async () => (await page.locator('.graph .node').count()) >= 40);
  const places = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll('.graph .node')].map((node) => [node.dataset.key, node.getAttribute('transform')])));
  await page.waitForTimeout(2000);
  const before = await places();
  await page.waitForTimeout(3000);
  const after = await places();
  const moved = Object.keys(before).filter((ip) => after[ip] && after[ip] !== before[ip]);
  check(moved.length === 0, 'nodes stay where they are', moved);
  const counts = [];
  for (const size of [10, 200]) {
    await page.locator('.choice button', { hasText: new RegExp(`^${size}$`) }).click();
    await page.waitForTimeout(300);
    const count = await page.locator('.graph .node').count();
    check(count > size * 0.6 && count <= size, `about ${size} nodes`, count);
    counts.push(count);
    const overlaps = await page.evaluate(() => {
      const boxes = [...document.querySelectorAll('.graph .labels text:not(.crowded)')].map((label) => label.getBoundingClientRect());
      return boxes.filter((a, i) => boxes.some((b, j) => j < i && a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 3 && b.top < a.bottom - 3)).length;
    });
    check(overlaps === 0, `labels of ${size} nodes do not overlap`, overlaps);
  }
  check(page.complaints.length === 0, 'no complaints', page.complaints);
  await page.context().close();
  ok(`the graph at ${counts.join(' and ')} nodes stays at rest, labels do not overlap`);
}

async function restart(page, port, running) {
  await page.keyboard.press('1');
  await stop(running);
  await eventually('the page says that the agent is gone', async () => (await text(page, '#banner')).includes('has not answered since'));
  await picture(page, 'page-gone');
  const again = await agent(port, [...REPLAY, '-c', 'agent.toml'], { cwd: folder });
  await eventually('the page is back', async () => !(await page.locator('#banner').isVisible()) && (await text(page, '#live')).includes('live'));
  await eventually('rows again', async () => (await text(page, '#panel .rows li')).includes(HEAVIEST[0]));
  ok('reconnects after a restart of the agent, and reports the outage');
  return again;
}

async function estimates(chrome) {
  const port = await freePort();
  const running = await agent(port, ['replay', 'hostile.pcap', '--serve', '-c', 'small.toml'], { cwd: folder });
  const page = await open(chrome, `http://127.0.0.1:${port}/#tab=sketch`);
  await eventually('layers', async () => /layer 1/.test(await text(page, '#panel')));
  check(/90 % intervals that hold/.test(await text(page, '#panel')), 'coverage is shown', await text(page, '#panel'));
  check(/in the top 10/.test(await text(page, '#numbers')), 'how sure answers are', await text(page, '#numbers'));
  await page.waitForTimeout(500);
  await picture(page, 'page-sketch');
  await page.keyboard.press('1');
  await eventually('whiskers', () => page.locator('.whisker:not([hidden])').count());
  const bad = await faults(page);
  check(bad.length === 0, 'axe on estimates', bad);
  check(page.complaints.length === 0, 'no complaints', page.complaints);
  await page.context().close();
  await stop(running);
  ok('estimates have whiskers; the sketch tab shows layers and coverage');
}

async function password(chrome) {
  const port = await freePort();
  const at = `http://127.0.0.1:${port}/`;
  const running = await agent(port, [...REPLAY, '-c', 'protected.toml'], { cwd: folder });
  check((await fetch(at)).status === 401, 'a password is asked for');
  const page = await open(chrome, at, { httpCredentials: { username: 'somebody', password: 'open sesame' } });
  await eventually('the heaviest', async () => (await text(page, '#panel .rows li')).includes(HEAVIEST[0]));
  check(page.complaints.length === 0, 'no complaints', page.complaints);
  await page.context().close();
  await stop(running);
  ok('a protected agent asks for the password, and its page works');
}

test(async (chrome) => {
  await run(['sample', 'sample.pcap'], { cwd: folder });
  await run(['sample', 'hostile.pcap', '--kind', 'hostile', '--packets', '100000'], { cwd: folder });
  const port = await freePort();
  const at = `http://127.0.0.1:${port}/`;
  let running = await agent(port, [...REPLAY, '-c', 'agent.toml'], { cwd: folder });
  const page = await firstLook(chrome, at);
  await rates(page);
  await searches(page);
  await keys(page);
  check(page.complaints.length === 0, 'no complaints', page.complaints);
  await everyTab(chrome, at);
  await graph(chrome, at);
  await pictures(chrome, at);
  running = await restart(page, port, running);
  const elsewhere = page.asked.filter((url) => !url.startsWith(at) && !url.startsWith('data:'));
  check(elsewhere.length === 0, 'all requests go to the agent', elsewhere);
  ok(`${page.asked.length} requests, all to the agent`);
  await stop(running);
  await estimates(chrome);
  await password(chrome);
});
