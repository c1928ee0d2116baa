// The page: paper to draw on, bars that show what the network thinks of it.

import { CLASSES, SIDE, load, softmax } from "./network.js";
import { draw, pixels } from "./strokes.js";

const PEN = 44; // width of a stroke on the paper, of whose 640 points each way

const find = (id) => document.getElementById(id);
const paper = find("paper"), seen = find("seen"), status = find("status");
const bars = Array.from({ length: CLASSES }, (_, digit) => bar(digit));
const strokes = []; // each a list of [x, y]
const times = []; // of the last runs, in milliseconds
let network;
let asked = 0; // drawings that were shown to the network: only the newest one's answer counts

function bar(digit) {
  const row = document.createElement("li");
  row.innerHTML = '<b></b><span class="track"><i class="bar"></i></span><span class="percent"></span>';
  row.querySelector("b").textContent = digit;
  find("bars").append(row);
  return row;
}

function show(probabilities) {
  const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
  bars.forEach((row, digit) => {
    const share = probabilities ? probabilities[digit] : 0;
    row.style.setProperty("--share", share);
    row.classList.toggle("best", digit === best);
    row.dataset.share = share;
    row.querySelector(".percent").textContent = probabilities ? `${(100 * share).toFixed(1)} %` : "";
  });
  find("bars").dataset.best = best;
}

function showSeen(image) {
  const context = seen.getContext("2d");
  const found = context.createImageData(SIDE, SIDE);
  image.forEach((value, i) => {
    const shade = Math.round(255 * (1 - value));
    found.data.set([shade, shade, shade, 255], 4 * i);
  });
  context.putImageData(found, 0, 0);
}

/** Shows the drawing, what the network sees of it, and what it thinks of that. */
async function refresh() {
  const context = paper.getContext("2d"), number = ++asked;
  context.clearRect(0, 0, paper.width, paper.height);
  context.strokeStyle = getComputedStyle(paper).color;
  draw(context, strokes, PEN);
  const image = pixels(strokes);
  showSeen(image);
  if (strokes.length === 0 || !network) return show(null);
  const begin = performance.now();
  const [scores] = await network.scores([image]);
  if (number !== asked) return undefined;
  noteTime(performance.now() - begin);
  paper.dataset.answered = number;
  return show(softmax(scores));
}

function noteTime(milliseconds) {
  times.push(milliseconds);
  if (times.length > 21) times.shift();
  const median = [...times].sort((a, b) => a - b)[times.length >> 1];
  status.textContent = `${milliseconds.toFixed(2)} ms for this answer, `
    + `${median.toFixed(2)} ms the median of the last ${times.length}`;
}

function clear() {
  strokes.length = 0;
  refresh();
}

// ---- the pen

function point(event) {
  const box = paper.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width * paper.width,
    (event.clientY - box.top) / box.height * paper.height];
}

paper.addEventListener("pointerdown", (event) => {
  event.preventDefault();
  paper.setPointerCapture(event.pointerId);
  strokes.push([point(event)]);
  refresh();
});
paper.addEventListener("pointermove", (event) => {
  if (!paper.hasPointerCapture(event.pointerId)) return;
  const all = event.getCoalescedEvents?.() ?? [];
  strokes.at(-1).push(...(all.length ? all : [event]).map(point));
  refresh();
});
find("clear").addEventListener("click", clear);
document.addEventListener("keydown", (event) => event.key === "Escape" && clear());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);

// ---- the model

try {
  network = await load("digits.onnx");
  await network.scores([pixels([])]); // the first run takes longer
  window.digits = { network, pixels, strokes }; // for the console, and for the test
  status.textContent = "ready: draw something";
  document.documentElement.dataset.state = "ready";
} catch (error) {
  status.textContent = `the model could not be loaded: ${error.message}. Is digits.onnx beside `
    + "this page, and has npm install been run?";
  status.classList.add("wrong");
  document.documentElement.dataset.state = "failed";
}
refresh();
