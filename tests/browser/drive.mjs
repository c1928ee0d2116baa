// Opens the page in a browser without a window, feeds it images, draws on it, and tells what it
// showed: node drive.mjs < job.json > found.json

import { readFileSync } from "node:fs";
import { launched, PATIENCE } from "./launch.mjs";

const job = JSON.parse(readFileSync(0, "utf8"));
const browser = await launched(job.browser);
try {
  const context = await browser.newContext({
    viewport: { width: 980, height: 760 }, hasTouch: true, colorScheme: "light",
  });
  context.setDefaultTimeout(PATIENCE);
  process.stdout.write(JSON.stringify(await driven(await context.newPage())));
} finally {
  await browser.close();
}

async function driven(page) {
  const found = { version: browser.version(), drawn: {}, requests: [], complaints: [] };
  page.on("request", (request) => found.requests.push(request.url()));
  page.on("pageerror", (error) => found.complaints.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) found.complaints.push(message.text());
  });
  await page.goto(job.url);
  await page.waitForSelector("html[data-state]");
  found.state = await page.evaluate(() => document.documentElement.dataset.state);
  found.status = await page.textContent("#status");
  if (found.state !== "ready") return found;
  found.scores = await page.evaluate((images) => window.digits.network.scores(images), job.images);
  for (const [digit, strokes] of Object.entries(job.drawings)) {
    found.drawn[digit] = await drawn(page, strokes, digit === job.touched ? touch : mouse);
    if (digit === job.shown) await page.screenshot({ path: job.screenshot });
    await page.click("#clear");
  }
  found.cleared = await page.evaluate(() => document.getElementById("bars").dataset.best);
  found.latency = await page.textContent("#status");
  return found;
}

async function drawn(page, strokes, pen) {
  const box = await page.locator("#paper").boundingBox();
  const place = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  for (const stroke of strokes) await pen(page, stroke.map(place));
  await page.waitForFunction(() => document.getElementById("bars").dataset.best !== "-1");
  await page.waitForTimeout(250); // the bars move
  return page.evaluate(() => ({
    best: Number(document.getElementById("bars").dataset.best),
    shares: [...document.querySelectorAll("#bars li")].map((row) => Number(row.dataset.share)),
    pixels: Array.from(window.digits.pixels(window.digits.strokes)),
  }));
}

async function mouse(page, points) {
  await page.mouse.move(...points[0]);
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...point);
  await page.mouse.up();
}

async function touch(page, points) {
  const fingers = await page.context().newCDPSession(page);
  const send = (type, at) => fingers.send("Input.dispatchTouchEvent", {
    type, touchPoints: at.map(([x, y]) => ({ x, y })),
  });
  await send("touchStart", [points[0]]);
  for (const point of points.slice(1)) await send("touchMove", [point]);
  await send("touchEnd", []);
}
