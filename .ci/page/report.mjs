// The page of `replay --report`, opened from a file.

import { check, eventually, faults, ok, open, picture, run, sideways, test, text, PHONE, WORK } from './browser.mjs';

const folder = `${WORK}/demo`;

test(async (chrome) => {
  await run(['replay', 'sample.pcap', '--window', '5s', '--report', 'report.html', '-c', 'agent.toml'], { cwd: folder });
  const at = `file://${folder}/report.html`;
  const page = await open(chrome, at);
  await eventually('the heaviest', async () => (await text(page, '#panel .rows li')).includes('10.0.1.8'), 5);
  const head = await text(page, 'header');
  check(/sample\.pcap/.test(head) && /2023-11-14 22:13:20–22:14:19\sUTC/.test(head) && !/\blive\b/.test(head), 'file and time', head);
  check((await text(page, '#notable')).includes('scan?'), 'the scan', await text(page, '#notable'));
  check(/12 windows/.test(await text(page, '#chart-panel')), 'windows are a chart', await text(page, '#chart-panel'));
  for (const tab of ['pairs', 'sources', 'destinations', 'fan-out', 'services', 'networks', 'graph', 'sketch']) {
    await page.evaluate((name) => { location.hash = `tab=${name}`; }, tab);
    await page.waitForTimeout(300);
    const bad = await faults(page);
    check(bad.length === 0, `axe in ${tab} of a report`, bad);
  }
  await page.evaluate(() => { location.hash = 'tab=pairs&q=10.0.1.8 → 192.0.2.1'; });
  await eventually('the pair and its windows', async () => page.locator('#found svg.windows rect').count());
  await picture(page, 'page-report');
  await page.evaluate(() => { location.hash = 'q=10.9.9.9'; });
  await eventually('an address that is not in the report', async () => /Not in the lists of this report/.test(await text(page, '#found')));
  // In every time zone, UTC is shown first, followed by local time with the name of the zone.
  for (const [zone, local] of [
    ['America/Los_Angeles', /22:13:20–22:14:19\sUTC \(local: 14:13:20–14:14:19, America\/Los_Angeles\)/],
    ['Asia/Tokyo', /22:13:20–22:14:19\sUTC \(local: 2023-11-15 07:13:20–07:14:19, Asia\/Tokyo\)/],
    ['UTC', /22:13:20–22:14:19\sUTC(?! \(local)/],
  ]) {
    const there = await open(chrome, at, { timezoneId: zone });
    await eventually(`the time in ${zone}`, async () => local.test(await text(there, 'header')), 5);
    check(/times in UTC/.test(await text(there, '#chart-panel')), 'the zone of the chart', await text(there, '#chart-panel'));
    const marks = await there.locator('#chart-panel svg text').allTextContents();
    check(marks.includes('22:13:20'), 'the chart is in UTC', marks);
  }
  check(page.complaints.length === 0, 'no complaints', page.complaints);
  const elsewhere = page.asked.filter((url) => !url.startsWith('file:') && !url.startsWith('data:'));
  check(elsewhere.length === 0, 'a report sends no requests', elsewhere);
  const phone = await open(chrome, at, { size: PHONE, dark: false });
  await phone.waitForTimeout(500);
  check(await sideways(phone) <= 0, 'no sideways scrolling');
  ok('a report works from a file, sends no requests, and reports what its lists do not contain');
});
