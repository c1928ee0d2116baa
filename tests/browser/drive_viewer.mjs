// Opens pages of explain(html=...) in a browser without a window, searches, clicks, collapses, and
// tells what each showed: node drive_viewer.mjs < job.json > found.json

import { readFileSync } from "node:fs";
import { launched, PATIENCE } from "./launch.mjs";

const job = JSON.parse(readFileSync(0, "utf8"));
const browser = await launched(job.browser);
const found = {};
try {
  for (const [name, page] of Object.entries(job.pages)) found[name] = await driven(name, page);
  process.stdout.write(JSON.stringify(found));
} finally {
  await browser.close();
}

async function driven(name, { url, search }) {
  const viewport = { width: 1280, height: 900 };
  const context = await browser.newContext({ viewport, offline: true });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const seen = { requests: [], complaints: [] };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.complaints.push(message.text());
  });
  await page.goto(url);
  await page.waitForSelector("html[data-state=ready]");
  seen.text = await page.innerText("main");
  await hovered(page, seen);
  await clicked(page, seen);
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    seen[scheme] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.screenshot({ path: `${job.pictures}/${name}-${scheme}.png` });
  }
  await page.keyboard.press("Escape");
  seen.closed = await page.isHidden("#details");
  await searched(page, seen, search);
  await folded(page, seen);
  await context.close();
  return seen;
}

function kernels(page) {
  return page.locator(".kernel:visible").count();
}

async function hovered(page, seen) {
  seen.kernels = await page.locator(".kernel").count();
  if (!seen.kernels) return;
  await page.locator(".kernel:visible").last().hover();
  seen.tip = await page.innerText("#tip");
  seen.readers = await page.locator(".kernel.before").count();
}

async function clicked(page, seen) {
  if (!seen.kernels) return;
  await page.locator(".kernel:visible").last().click();
  seen.code = await page.innerText("#details .code");
  seen.lines = await page.innerText("#details .source");
}

async function searched(page, seen, text) {
  await page.fill(".toolbar input", text);
  seen.matching = await kernels(page);
  seen.found = await page.innerText(".toolbar output");
  await page.fill(".toolbar input", "no kernel has this name");
  seen.unmatched = await kernels(page);
  await page.fill(".toolbar input", "");
}

async function folded(page, seen) {
  await page.click("#collapse");
  seen.collapsed = await kernels(page);
  seen.height = await page.evaluate(() => document.body.scrollHeight);
  await page.click("#expand");
  seen.expanded = await kernels(page);
}
