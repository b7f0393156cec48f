// Helpers of the tests of the page: an agent, a browser that records requests, and checks that
// print the unexpected value.

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

/** Calls `holds` until it returns a true value, and returns that. */
export async function eventually(what, holds, seconds = 15) {
  const start = Date.now();
  for (;;) {
    const value = await holds();
    if (value) return value;
    if (Date.now() - start > seconds * 1000) throw new Error(`FAILED: timeout: ${what}`);
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

/** Starts an agent that serves on this port. */
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

/** Runs `crane-agent` and returns its standard output. */
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

/** Opens a page and records its errors, warnings and requests. */
export async function open(chrome, url, { size = LARGE, dark = true, ...options } = {}) {
  const context = await chrome.newContext({
    viewport: size, colorScheme: dark ? 'dark' : 'light', hasTouch: size.width < 500, timezoneId: 'UTC', locale: 'en-GB',
    // Without transitions, because contrast is lower while an element fades in.
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

/** The visible text of an element. */
export function text(page, selector) {
  return page.evaluate((one) => document.querySelector(one)?.innerText ?? '', selector);
}

/** The serious and critical violations that axe finds. */
export async function faults(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const bad = found.violations.filter((one) => ['serious', 'critical'].includes(one.impact));
  return bad.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`);
}

/** By how many pixels the page is wider than the window. */
export function sideways(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
}

/** Pictures in the documentation. Others are only for inspection during development. */
const SHOWN = ['dark', 'light', 'phone', 'graph', 'search', 'sketch', 'report', 'interfaces'].map((name) => `page-${name}`);

export async function picture(page, name) {
  // JPEG is smaller for a picture with hundreds of thin lines.
  const kind = name === 'page-graph' ? { type: 'jpeg', quality: 85 } : { type: 'png' };
  const path = `${SHOWN.includes(name) ? IMAGES : `${WORK}/pictures`}/${name}.${kind.type === 'png' ? 'png' : 'jpg'}`;
  await page.screenshot({ path, animations: 'disabled', ...kind });
  check(statSync(path).size < 200_000, `${path} is small`, statSync(path).size);
}

/** Runs a test, and exits with 1 if it fails. */
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
