// The exported model, run by ONNX Runtime.

import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.min.mjs";

export const SIDE = 8; // pixels of an image, each way
export const CLASSES = 10;

ort.env.wasm.numThreads = 1; // more would need headers of the server, and gain nothing here

/** The network in a file: `scores` gives ten numbers for each image of 64 pixels of 0 to 1. */
export async function load(url) {
  const session = await ort.InferenceSession.create(url, { executionProviders: ["wasm"] });
  const [input] = session.inputNames, [output] = session.outputNames;

  async function scores(images) {
    const pixels = Float32Array.from(images.flatMap((image) => Array.from(image)));
    const tensor = new ort.Tensor("float32", pixels, [images.length, 1, SIDE, SIDE]);
    const flat = Array.from((await session.run({ [input]: tensor }))[output].data);
    return images.map((_, i) => flat.slice(i * CLASSES, (i + 1) * CLASSES));
  }

  return { scores };
}

/** Probabilities of scores. */
export function softmax(scores) {
  const largest = Math.max(...scores);
  const powers = scores.map((s) => Math.exp(s - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((p) => p / sum);
}
