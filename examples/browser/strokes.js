// Strokes as the network knows digits. Those it learned from were bitmaps of 32 by 32, each
// digit as high as the bitmap; a pixel of its 8 by 8 is the share of 4 by 4 points that are ink.

import { SIDE } from "./network.js";

const GRID = 32; // points of the bitmap, each way
const BLOCK = GRID / SIDE;
const PEN = 4.6; // width of a stroke on it
const WIDTHS = [10, 25]; // how wide a digit is at least and at most, on the same grid
const THRESHOLD = 128; // of 255: from where on a point is ink

/** 64 pixels of 0 to 1, for strokes of points [x, y] in any unit. */
export function pixels(strokes) {
  const points = strokes.flat();
  if (points.length === 0) return new Float32Array(SIDE * SIDE);
  return counted(bitmap(strokes, placement(points)));
}

/** Where a point of the drawing lies on the grid: the drawing as high as it, and in its middle. */
function placement(points) {
  const [left, right] = range(points.map(([x]) => x));
  const [top, bottom] = range(points.map(([, y]) => y));
  const inner = GRID - PEN; // so that a stroke of this width ends at the edge
  const high = Math.max(bottom - top, (right - left) / 2, 1e-6); // a dash stays a dash
  const scale = inner / high;
  const [narrow, wide] = WIDTHS.map((width) => width - PEN);
  const width = (right - left) * scale;
  const across = width > wide ? (scale * wide) / width : width > 1 && width < narrow
    ? (scale * narrow) / width : scale;
  return ([x, y]) => [GRID / 2 + (x - (left + right) / 2) * across,
    GRID / 2 + (y - (top + bottom) / 2) * scale];
}

function range(values) {
  return [Math.min(...values), Math.max(...values)];
}

/** The opacity of 32 by 32 points, with the strokes drawn anew in the width of a pen. */
function bitmap(strokes, place) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = GRID;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  draw(context, strokes.map((stroke) => stroke.map(place)), PEN);
  const { data } = context.getImageData(0, 0, GRID, GRID);
  return Uint8Array.from({ length: GRID * GRID }, (_, i) => data[4 * i + 3]);
}

/** Draws strokes, with round ends, in the context's colour. */
export function draw(context, strokes, width) {
  Object.assign(context, { lineWidth: width, lineCap: "round", lineJoin: "round" });
  for (const stroke of strokes) {
    context.beginPath();
    context.moveTo(...stroke[0]);
    for (const point of stroke) context.lineTo(...point);
    context.stroke();
  }
}

function counted(points) {
  const found = new Float32Array(SIDE * SIDE);
  points.forEach((opacity, i) => {
    const row = Math.floor(i / GRID / BLOCK), column = Math.floor((i % GRID) / BLOCK);
    if (opacity >= THRESHOLD) found[row * SIDE + column] += 1 / (BLOCK * BLOCK);
  });
  return found;
}
