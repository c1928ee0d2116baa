// Starts a browser without a window, for the scripts that drive pages.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

export const PATIENCE = 100_000; // milliseconds, on a machine that is busy
const NO_BROWSER = 3; // the exit status where there is none

/** The browser at a path, or else the one that is a package, if it runs here. */
export async function launched(path) {
  const options = { args: ["--no-sandbox", "--disable-gpu"], timeout: PATIENCE };
  if (path) return chromium.launch({ ...options, executablePath: path });
  try {
    return await chromium.launch({ ...options, executablePath: await packaged() });
  } catch (error) {
    console.error(String(error));
    return process.exit(NO_BROWSER);
  }
}

/** The path of the browser that is a package, unpacked with its libraries below $TMPDIR. */
async function packaged() {
  process.env.AWS_LAMBDA_JS_RUNTIME ??= "nodejs20.x"; // lest it counts on those of the system
  // With its own fonts alone it ends at the first text field, for want of a method.
  if (existsSync("/etc/fonts/fonts.conf")) process.env.FONTCONFIG_PATH ??= "/etc/fonts";
  const { default: own } = await import("@sparticuz/chromium");
  return own.executablePath();
}
