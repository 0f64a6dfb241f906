// SPDX-License-Identifier: Apache-2.0
// Pictures of a report and of a trace in speedscope, taken in Chromium without a network.
// Usage: NODE_PATH=MODULES node screenshots.cjs REPORT TRACE SPEEDSCOPE IMAGES
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');
const {chromium} = require('playwright-core');

const [report, trace, speedscope, images] = process.argv.slice(2);
const browsers = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
const types = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css'};

// Serves the files of speedscope, which loads parts of itself.
function serve(root) {
  const server = http.createServer((request, response) => {
    const name = request.url.split('?')[0];
    const file = path.join(root, name === '/' ? 'index.html' : path.normalize(name));
    if (!file.startsWith(root) || !fs.existsSync(file)) {
      response.statusCode = 404;
      response.end();
      return;
    }
    response.setHeader('content-type', types[path.extname(file)] || 'application/octet-stream');
    response.end(fs.readFileSync(file));
  });
  return new Promise(done => server.listen(0, '127.0.0.1', () => done(server)));
}

async function picture(browser, address, size, name, prepare) {
  const page = await browser.newPage({viewport: size});
  page.on('pageerror', error => { throw error; });
  await page.goto(address);
  if (prepare) await prepare(page);
  await page.screenshot({path: path.join(images, name)});
  await page.close();
}

async function main() {
  const executablePath = browsers.find(file => fs.existsSync(file));
  if (!executablePath) throw new Error('no Chromium: install chromium-headless-shell');
  const browser = await chromium.launch({executablePath, args: ['--no-sandbox']});
  const server = await serve(path.resolve(speedscope));
  await picture(browser, 'file://' + path.resolve(report), {width: 1200, height: 1500}, 'report.png');
  await picture(browser, `http://127.0.0.1:${server.address().port}/`, {width: 1200, height: 420},
      'trace.png', async page => {
        await page.setInputFiles('input[type=file]', trace);
        await page.waitForFunction(() => !document.body.innerText.includes('Drag and drop'));
        await page.waitForTimeout(2000);  // until it is drawn
      });
  server.close();
  await browser.close();
}

main().catch(error => {
  console.error(`screenshots.cjs: ${error.message}`);
  process.exit(1);
});
