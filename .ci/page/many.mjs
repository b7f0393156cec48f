// The page with 500 interfaces, and with an interface that does not exist.

import { agent, check, eventually, faults, freePort, ok, open, picture, PHONE, sideways, test, text } from './browser.mjs';

test(async (chrome) => {
  const port = await freePort();
  await agent(port, ['run', '--interface', 'crowd*', '--window', '10s']);
  const at = `http://127.0.0.1:${port}/`;
  const page = await open(chrome, `${at}#if=*`);
  await eventually('all of them', async () => (await page.locator('#overview .rows li').count()) === 500, 60);
  await eventually('the busiest first', async () => /^crowd(69|70)\b/.test(await text(page, '#overview .rows li')), 30);
  await page.waitForTimeout(20_000);
  await picture(page, 'page-interfaces');
  await page.locator('#filter').fill('crowd30');
  await eventually('a filter', async () => (await page.locator('#overview .rows li').count()) === 11);
  const bad = await faults(page);
  check(bad.length === 0, 'axe on 500 interfaces', bad);
  await page.locator('#overview li[data-key="crowd300"]').click();
  await eventually('the page of one', async () => page.url().includes('if=crowd300') && (await text(page, '#panel .rows li')).includes('10.50.50.2'));
  check(page.complaints.length === 0, 'no complaints', page.complaints);
  const idle = await open(chrome, `${at}#if=crowd1`, { size: PHONE });
  await eventually('an idle one says so', async () => /No packet has come|Nothing here yet|No packet with addresses/.test(await text(idle, '#panel')));
  check(await sideways(idle) <= 0, 'no sideways scrolling');
  ok('500 interfaces: an overview, a filter, a page for each');
  const other = await freePort();
  await agent(other, ['run', '--interface', 'nothing0']);
  const waiting = await open(chrome, `http://127.0.0.1:${other}/`);
  await eventually('what is waited for', async () => (await text(waiting, '#banner')).includes('Waiting for: nothing0'));
  check((await text(waiting, '#panel')).includes('Nothing is captured yet'), 'no list', await text(waiting, '#panel'));
  check(waiting.complaints.length === 0, 'no complaints', waiting.complaints);
  ok('an agent that waits for its interface says so');
});
