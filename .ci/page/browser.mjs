// What the tests of the page share: an agent, a browser that watches what is asked for,
// and checks that say what they found.

import { spawn } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';

export const { AGENT, WORK, IMAGES } = process.env;
const require = createRequire(`${WORK}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export function ok(what) {
  console.log(`ok: ${what}`);
}

export function check(condition, what, found) {
  if (condition) return;
  throw new Error(`FAILED: ${what}${found === undefined ? '' : `: ${JSON.stringify(found)}`}`);
}

/** Asks again until it holds. */
export async function eventually(what, holds, seconds = 15) {
  const start = Date.now();
  for (;;) {
    const value = await holds();
    if (value) return value;
    if (Date.now() - start > seconds * 1000) throw new Error(`FAILED: waited in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

export function freePort() {
  return new Promise((done) => {
    const server = net.createServer();
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

const started = [];
process.on('exit', () => started.forEach((child) => child.kill('SIGKILL')));

/** An agent that serves on this port. */
export async function agent(port, args, options = {}) {
  const child = spawn(AGENT, [...args, `--listen=127.0.0.1:${port}`], { stdio: ['ignore', 'ignore', 'pipe'], ...options });
  started.push(child);
  let log = '';
  child.stderr.on('data', (text) => { log += text; });
  await eventually('the agent serves', async () => {
    if (child.exitCode !== null) throw new Error(`FAILED: the agent ended: ${log}`);
    return log.includes('the page is at');
  }, 60);
  return child;
}

export function stop(child) {
  return new Promise((done) => {
    child.on('exit', done);
    child.kill('SIGTERM');
  });
}

/** What `crane-agent` prints. */
export function run(args, options = {}) {
  return new Promise((done, fail) => {
    const child = spawn(AGENT, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    let [out, log] = ['', ''];
    child.stdout.on('data', (text) => { out += text; });
    child.stderr.on('data', (text) => { log += text; });
    child.on('exit', (code) => (code === 0 ? done(out) : fail(new Error(`${args}: ${log}`))));
  });
}

export async function browser() {
  const found = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  const executablePath = process.env.CHROMIUM || found.find((path) => { try { return readFileSync(path); } catch { return false; } });
  return chromium.launch({
    executablePath,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
}

export const LARGE = { width: 1400, height: 900 };
export const PHONE = { width: 390, height: 844 };

/** A page that keeps what it complains about and what it asks for. */
export async function open(chrome, url, { size = LARGE, dark = true, ...options } = {}) {
  const context = await chrome.newContext({
    viewport: size, colorScheme: dark ? 'dark' : 'light', hasTouch: size.width < 500, timezoneId: 'UTC', locale: 'en-GB',
    // What fades in has less contrast for half a second.
    reducedMotion: 'reduce', ...options,
  });
  const page = await context.newPage();
  page.complaints = [];
  page.asked = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(error.stack));
  page.on('request', (request) => page.asked.push(request.url()));
  await page.goto(url);
  return page;
}

/** What can be read of it now. */
export function text(page, selector) {
  return page.evaluate((one) => document.querySelector(one)?.innerText ?? '', selector);
}

/** What axe finds that is serious. */
export async function faults(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const bad = found.violations.filter((one) => ['serious', 'critical'].includes(one.impact));
  return bad.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`);
}

/** How far it can be scrolled sideways. */
export function sideways(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
}

/** Those of the documents; others are to look at while the page changes. */
const SHOWN = ['dark', 'light', 'phone', 'graph', 'search', 'sketch', 'report', 'interfaces'].map((name) => `page-${name}`);

export async function picture(page, name) {
  // Thin lines by the hundred are no picture for PNG.
  const kind = name === 'page-graph' ? { type: 'jpeg', quality: 85 } : { type: 'png' };
  const path = `${SHOWN.includes(name) ? IMAGES : `${WORK}/pictures`}/${name}.${kind.type === 'png' ? 'png' : 'jpg'}`;
  await page.screenshot({ path, animations: 'disabled', ...kind });
  check(statSync(path).size < 200_000, `${path} is small`, statSync(path).size);
}

/** Runs it, and ends with 1 if it fails. */
export async function test(body) {
  const chrome = await browser();
  try {
    await body(chrome);
    await chrome.close();
  } catch (error) {
    console.error(error.message.startsWith('FAILED') ? error.message : error.stack);
    process.exit(1);
  }
  process.exit(0);
}
