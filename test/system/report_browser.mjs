// SPDX-License-Identifier: Apache-2.0
// Opens pages of `halomesh report` in Chromium, offline, and uses them as a reader does: wide,
// narrow, dark, printed, by keyboard, without scripts. One line per case, "ok" or "not ok".
// Usage: report_browser.mjs MODULES BROWSER PICTURES PAGE...
//   MODULES: a node_modules directory with playwright-core and axe-core
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {basename, join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const [modules, executablePath, pictures, ...files] = process.argv.slice(2);
const require = createRequire(join(resolve(modules), 'x.js'));
const {chromium} = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const views = {
  wide: {viewport: {width: 1280, height: 900}},
  narrow: {viewport: {width: 360, height: 740}},
  dark: {viewport: {width: 1280, height: 900}, colorScheme: 'dark'},
};

function expect(condition, what) {
  if (!condition) throw new Error(what);
}

// Texts of a figure that leave it or lie on each other. Turned ones have boxes larger than they are.
function text_faults() {
  const faults = [];
  let texts = 0;
  for (const svg of document.querySelectorAll('.plot svg')) {
    const frame = svg.getBoundingClientRect();
    const boxes = [];
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      const name = `"${text.textContent}" of ${svg.closest('figure').id}`;
      if (box.width === 0 || text.closest('.level-label')) continue;
      ++texts;
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
          box.bottom > frame.bottom + 1) faults.push(name + ' leaves the figure');
      if (!/rotate\(-?0 /.test(text.getAttribute('transform') ?? 'rotate(0 ')) continue;
      for (const [other, at] of boxes) {
        if (box.left < at.right && at.left < box.right && box.top + 3 < at.bottom && at.top + 3 < box.bottom)
          faults.push(`${name} lies on ${other}`);
      }
      boxes.push([name, box]);
    }
  }
  return {texts, faults};
}

// Opens the page, lets `use` work on it, and closes it: nothing but the file may be asked for.
async function opened(browser, file, options, use) {
  const context = await browser.newContext({offline: true, ...options});
  const page = await context.newPage();
  page.setDefaultTimeout(10000);
  const asked = [], errors = [];
  page.on('request', (request) => asked.push(request.url()));
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
  const address = pathToFileURL(resolve(file)).href;
  await page.goto(address);
  await use(page);
  await context.close();
  expect(asked.length > 0 && asked.every((url) => url.split('#')[0] === address),
      'requests: ' + asked.join(' '));
  expect(errors.length === 0, 'errors: ' + errors.join('; '));
}

async function look(page, picture) {
  await page.screenshot({path: picture, fullPage: true});
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(overflow <= 0, `the page is ${overflow} px wider than the window`);
  const {texts, faults} = await page.evaluate(text_faults);
  expect(texts > 10 && faults.length === 0, `of ${texts} texts: ${faults.slice(0, 5).join('; ')}`);
  await page.addScriptTag({content: axe});
  const result = await page.evaluate(() => axe.run());
  expect(result.passes.length > 10, 'axe checked nothing');
  expect(result.violations.length === 0, result.violations.map(
      (violation) => `${violation.id}: ${violation.nodes[0].html.slice(0, 160)}`).join('; '));
}

async function printed(page) {
  await page.emulateMedia({media: 'print', colorScheme: 'dark'});
  const seen = await page.evaluate(() => ({
    nav: document.querySelector('nav').checkVisibility(), figures: document.querySelectorAll('figure svg.figure').length,
    page: getComputedStyle(document.body).backgroundColor, text: getComputedStyle(document.body).color,
  }));
  expect(!seen.nav && seen.figures > 0, 'the list of sections is printed');
  expect(seen.page === 'rgb(255, 255, 255)', 'printed on ' + seen.page);
  expect((await page.pdf({format: 'A4'})).length > 10000, 'the PDF is empty');
}

async function by_keyboard(page) {
  await page.keyboard.press('Tab');
  expect(await page.evaluate(() => document.activeElement.className === 'skip'), 'the first Tab finds no skip link');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.id === 'content', null, {timeout: 5000});
  const plots = page.locator('.plot');
  const count = await plots.count();
  expect(count > 0, 'no figure');
  for (let i = 0; i < count; ++i) {
    const plot = plots.nth(i), tip = plot.locator('.tip');
    await plot.focus();
    await page.keyboard.press('ArrowRight');
    const first = await tip.innerText();
    expect(first.length > 0, `figure ${i} shows no value`);
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowDown');
    expect(await tip.isVisible(), `figure ${i} shows no value at its end`);
    await page.keyboard.press('Escape');
    expect(!await tip.isVisible(), `figure ${i} still shows a value after Escape`);
  }
}

async function legend(page) {
  const button = page.locator('.legend button').first();
  const group = page.locator('figure:has(.legend) .series[data-series="0"]').first();
  for (const shown of [true, false, true]) {
    expect(await group.isVisible() === shown, `the series is ${shown ? 'hidden' : 'shown'}`);
    expect(await button.getAttribute('aria-pressed') === String(shown), 'aria-pressed is not ' + shown);
    await button.focus();
    await page.keyboard.press('Enter');
  }
}

async function on_hover(page) {
  const mark = page.locator('.series use').first();
  await mark.scrollIntoViewIfNeeded();
  const box = await mark.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  expect((await page.locator('.tip:visible').innerText()).length > 0, 'no value on hover');
}

async function saved(page) {
  for (const [name, begins] of [['SVG', '<svg '], ['CSV', 'series,']]) {
    const [file] = await Promise.all([
      page.waitForEvent('download'), page.locator('.files button', {hasText: name}).first().click()]);
    expect(file.suggestedFilename().endsWith('.' + name.toLowerCase()), 'a file ' + file.suggestedFilename());
    const text = readFileSync(await file.path(), 'utf8');
    expect(text.startsWith(begins) && text.length > 100, `${name} begins with ${text.slice(0, 40)}`);
  }
}

async function without_scripts(page) {
  expect(await page.locator('.plot svg').first().isVisible(), 'no figure is seen');
  expect(await page.locator('.legend button').count() === 0, 'buttons that do nothing');
  await page.locator('details summary').first().click();
  expect(await page.locator('details table').first().isVisible(), 'the table of a figure does not open');
}

const browser = await chromium.launch({executablePath, args: ['--no-sandbox']});
let failed = 0;
async function test_case(name, file, options, use) {
  try {
    await opened(browser, file, options, use);
    console.log('ok ' + name);
  } catch (error) {
    ++failed;
    console.log(`not ok ${name}: ${error.message}`);
  }
}
for (const file of files) {
  const name = basename(file, '.html');
  for (const [view, options] of Object.entries(views))
    await test_case(`${name}, ${view}`, file, options, (page) => look(page, join(pictures, `${name}-${view}.png`)));
  await test_case(name + ', printed', file, views.wide, printed);
  await test_case(name + ', by keyboard', file, views.narrow, by_keyboard);
  await test_case(name + ', legend', file, views.wide, legend);
  await test_case(name + ', on hover', file, views.wide, on_hover);
  await test_case(name + ', saved', file, views.wide, saved);
  await test_case(name + ', without scripts', file, {...views.wide, javaScriptEnabled: false}, without_scripts);
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
