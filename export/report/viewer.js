"use strict";
// Shows the data of an explanation. All texts are set as text, never as HTML.

const DATA = JSON.parse(document.getElementById("data").textContent);
const MANY = 60; // kernels of a graph, from which on they are grouped by line, without arrows
const LONGEST = [...DATA.programs, DATA.subgraphs].flatMap((p) => p.segments)
  .flatMap((s) => s.parts).flatMap((p) => p.kernels).reduce((longest, row) => Math.max(longest, row.seconds), 1e-12);
const KERNELS = []; // all boxes: { box, row, part, text }

/** An element with properties, and children that are elements or texts. */
function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

function scaled(value, units) {
  const [size, unit] = units.find(([least]) => value >= least) ?? units.at(-1);
  const shown = value / size;
  return `${shown.toFixed(shown >= 100 ? 0 : shown >= 10 ? 1 : 2)} ${unit}`;
}
const seconds = (s) => scaled(s, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
const bytes = (n) => n < 1000 ? `${n} B` : scaled(n, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]);
const rate = (n, s, unit) => s > 0 && n ? `${(n / s / 1e9).toFixed(1)} ${unit}` : "–";
const share = (row) => row.limit && row.seconds ? Math.min(row.limit / row.seconds, 1) : 0;
const fold = (name, title, open, ...children) =>
  el("details", { class: name, open }, el("summary", {}, ...title), ...children);

// ---- the user's lines
/** The lines around those that a text names as `file.py:12`, or null if none is known. */
function sourceOf(text) {
  const tables = [];
  const named = new Map();
  for (const [, file, line] of text.matchAll(/([^\s,:/\\]+):(\d+)/g)) {
    if (DATA.sources[file]) named.set(file, (named.get(file) ?? new Set()).add(Number(line)));
  }
  for (const [file, lines] of named) {
    tables.push(el("p", { class: "soft" }, file), linesOf(file, lines));
  }
  return tables.length ? el("div", {}, ...tables) : null;
}

function linesOf(file, named) {
  const near = (n) => [...named].some((line) => Math.abs(line - n) <= 4);
  const shown = Object.entries(DATA.sources[file]).filter(([n]) => near(Number(n)));
  return el("table", { class: "lines" }, ...shown.map(([n, text]) =>
    el("tr", { class: named.has(Number(n)) ? "named" : "" }, el("td", {}, n), el("td", {}, text))));
}

// ---- graph breaks and recordings
function graphBreaks() {
  const s = DATA.subgraphs;
  const named = new Set(DATA.graph_breaks.map((row) => row.why));
  const cards = [...DATA.graph_breaks, ...s.boundaries.filter((row) => !named.has(row.why))]
    .map(causeCard);
  const ran = s.replays + s.evaluations + s.eager_ops;
  const note = ran ? `${count(s.compiled, "subgraph")} compiled between the graph breaks; they ran `
    + `${count(s.replays, "time")} as code, and ${count(s.eager_ops, "operation")} ran one by one.`
    : "";
  return cards.length ? panel("Graph breaks", note, el("div", { class: "cards" }, ...cards)) : null;
}

function causeCard(row) {
  return el("div", { class: "card searched" },
    el("p", {}, `${row.why} `, el("span", { class: "soft" }, count(row.times, "time"))),
    el("p", { class: "remedy" }, el("b", {}, "Remedy: "), row.remedy), sourceOf(row.why));
}

function recordings() {
  const cards = DATA.recompiled.map(causeCard);
  const note = "The first recording is of the first call. These are the causes of all others. "
    + "Causes that differ in a value alone are one card.";
  return cards.length ? panel("New recordings", note, el("div", { class: "cards" }, ...cards))
    : null;
}

/** The graphs that run between graph breaks. */
function subgraphs() {
  const { segments } = DATA.subgraphs;
  if (!segments.length) return null;
  const rows = segments.flatMap((s) => s.parts.flatMap((p) => p.kernels));
  const title = ["Subgraphs between graph breaks ", el("small", {}, `${count(rows.length,
    "kernel")}, ${seconds(sum(rows.map((row) => row.seconds)))}`)];
  return el("section", {}, fold("program", title, true,
    ...segments.map((segment, i) => graph(segment, `s${i + 1}`))));
}

function panel(title, note, ...content) {
  const words = note ? [el("p", { class: "note" }, note)] : [];
  return el("section", {}, el("h2", {}, title), ...words, ...content);
}

// ---- programs
function program(of) {
  const rows = of.segments.flatMap((s) => s.parts.flatMap((p) => p.kernels));
  const title = [`Program ${of.number} of ${DATA.programs.length} `, el("small", {},
    `replayed ${count(of.uses, "time")}, ${count(rows.length, "kernel")}, `
    + seconds(sum(rows.map((row) => row.seconds))))];
  const graphs = of.segments.map((segment, i) => graph(segment, `${of.number}.${i + 1}`));
  return el("section", {}, fold("program", title, true, ...guards(of),
    fold("inner", ["Control flow ", el("small", {}, "with the calls of each path")], true,
      el("div", { class: "flow" }, flow(of.flow[0], of)), how(of)), ...graphs));
}

function how(of) {
  const texts = [of.native === "" ? "The whole program is one native call." : "",
    of.native ? `Control flow runs in Python between native calls: ${of.native}.` : "",
    of.hot_paths ? `${count(of.hot_paths, "path")} through merges compiled as a whole.` : ""];
  return el("p", { class: "note" }, texts.filter(Boolean).join(" "));
}

function guards(of) {
  const items = (texts) => el("ul", { class: "plain" },
    ...texts.map((text) => el("li", { class: "searched" }, text)));
  const scalars = of.scalars.length
    ? [fold("inner", ["Numbers that may change"], true, items(of.scalars))] : [];
  return [fold("inner", ["Guards ", el("small", {}, count(of.guards.length, "condition"))], false,
    items(of.guards)), ...scalars];
}

// ---- control flow
function flow(first, of) {
  const drawn = el("div", {});
  let block = first;
  for (;;) { // a chain of blocks with one successor each is a column
    drawn.append(flowBlock(block, of));
    if (block.edges.length !== 1 || block.kind === "branch") break;
    block = of.flow[block.edges[0].to];
  }
  for (const edge of block.edges) {
    drawn.append(el("div", { class: edge.uses ? "below" : "below never" },
      el("div", { class: "edge" }, el("b", {}, edge.label), meter(edge.uses, of.uses),
        el("span", { class: "soft" }, count(edge.uses, "call"))), flow(of.flow[edge.to], of)));
  }
  return drawn;
}

function meter(part, whole) {
  return el("i", { style: `width:${whole ? Math.round(90 * Math.min(part / whole, 1)) : 0}px` });
}

function flowBlock(block, of) {
  const number = of.flow.indexOf(block);
  const texts = block.kind === "exit" ? block.exits.map(exitText) : [block.text || block.kind];
  const chips = block.segments.map((s) => chip(`graph ${of.number}.${s + 1}`,
    () => show(document.getElementById(`graph-${of.number}.${s + 1}`))));
  if (block.jump >= 0) {
    chips.push(chip(block.kind === "back_edge" ? "↩ to the loop" : "↪ to the merge",
      () => show(document.getElementById(`block-${of.number}-${block.jump}`))));
  }
  return el("div", {}, el("div", {
    class: `block searched ${block.kind}`, id: `block-${of.number}-${number}`,
  }, ...texts.map((text) => el("div", {}, text)), ...chips));
}

function exitText(exit) {
  const lists = [["returns", exit.computes], ["changes", exit.changes], ["if", exit.guards]];
  const texts = lists.filter(([, items]) => items.length).map(([what, items]) => {
    const more = items.length > 6 ? `, and ${items.length - 6} more` : "";
    return `${what} ${items.slice(0, 6).join(", ")}${more}`;
  });
  return texts.join("; ") || "returns nothing computed";
}

const chip = (text, onclick) => el("button", { class: "chip", type: "button", onclick }, text);

function show(element) {
  for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  element.scrollIntoView({ block: "center" });
  for (const old of document.querySelectorAll(".target")) old.classList.remove("target");
  element.classList.add("target");
}

// ---- graphs: boxes of kernels
function graph(segment, number) {
  const rows = segment.parts.flatMap((part) => part.kernels);
  const memory = segment.memory ? `, memory of a call ${bytes(segment.memory.peak)}` : "";
  const state = rows.length ? `${count(rows.length, "kernel")}, `
    + `${seconds(sum(rows.map((row) => row.seconds)))}${memory}` : "not compiled yet";
  const made = fold("inner graphs", [`Graph ${number} `, el("small", {}, state)], rows.length > 0,
    ...segment.parts.flatMap((part) => partOf(part)),
    fold("inner", [el("small", {}, "the recorded graph as text")], false,
      el("pre", {}, segment.graph)));
  made.id = `graph-${number}`;
  return made;
}

function partOf(part) {
  const boxes = part.kernels.map((row, i) => kernelBox(row, part, i));
  const few = part.kernels.length < MANY;
  const drawn = few ? layered(part, boxes) : grouped(part, boxes);
  const title = part.title ? [el("p", { class: "soft" }, part.title)] : [];
  return [...title, drawn, ...memoryChart(part)];
}

function kernelBox(row, part, number) {
  const box = el("button", {
    class: row.why ? "kernel call" : "kernel", type: "button",
    style: `--heat:${(row.seconds / LONGEST).toFixed(3)};--limit:${share(row).toFixed(3)}`,
    onclick: () => details(entry), onmouseenter: (event) => hover(entry, event),
    onfocus: (event) => hover(entry, event), onmouseleave: leave, onblur: leave,
  }, el("b", {}, row.name),
  el("span", {}, `${seconds(row.seconds)} · ${row.line || "no line"}`), el("i"));
  const text = [row.name, row.line, ...row.refusals, row.why ?? ""].join(" ").toLowerCase();
  const entry = { box, row, part, number, text };
  KERNELS.push(entry);
  return entry;
}

/** Boxes in rows: each below all those whose results it reads; with arrows. */
function layered(part, boxes) {
  const level = [];
  part.kernels.forEach((row, i) => {
    level[i] = 1 + Math.max(-1, ...row.reads.map((r) => level[r] ?? -1));
  });
  const rows = [];
  boxes.forEach((entry, i) => (rows[level[i]] ??= []).push(entry.box));
  const arrows = svg("svg", { class: "arrows", "aria-hidden": "true" });
  const drawn = el("div", { class: "graph" }, arrows,
    ...rows.map((row) => el("div", { class: "level" }, ...row)));
  new ResizeObserver(() => drawArrows(arrows, boxes, drawn)).observe(drawn);
  return drawn;
}

function drawArrows(arrows, boxes, inside) {
  const origin = inside.getBoundingClientRect();
  const paths = boxes.flatMap((to, i) => to.row.reads.map((r) => {
    const [a, b] = [boxes[r].box.getBoundingClientRect(), to.box.getBoundingClientRect()];
    if (!a.width || !b.width) return null;
    const [x, y] = [a.left + a.width / 2 - origin.left, a.bottom - origin.top];
    const [u, v] = [b.left + b.width / 2 - origin.left, b.top - origin.top];
    const half = (v - y) / 2;
    return svg("path", { "data-from": r, "data-to": i,
      d: `M${x} ${y}C${x} ${y + half} ${u} ${v - half} ${u} ${v}` });
  }));
  arrows.replaceChildren(...paths.filter(Boolean));
}

/** Boxes by line, longest time first; each line can be collapsed. */
function grouped(part, boxes) {
  const groups = new Map();
  for (const entry of boxes) {
    const line = entry.row.line || "no line";
    groups.set(line, [...(groups.get(line) ?? []), entry]);
  }
  const time = (entries) => sum(entries.map((entry) => entry.row.seconds));
  const sorted = [...groups].sort((a, b) => time(b[1]) - time(a[1]));
  return el("div", {}, ...sorted.map(([line, entries], i) => fold("line", [`${line} `,
    el("small", {}, `${count(entries.length, "kernel")}, ${seconds(time(entries))}`)], i < 3,
    el("div", { class: "boxes" }, ...entries.map((entry) => entry.box)))));
}

// ---- facts of a kernel
function facts(row) {
  const rows = [["source line", row.line || "–"], ["time", seconds(row.seconds)],
    ["memory", `${bytes(row.bytes)}, ${rate(row.bytes, row.seconds, "GB/s")}`],
    ["arithmetic", `${row.flops.toLocaleString("en")} flops, `
      + rate(row.flops, row.seconds, "GFLOP/s")],
    ["of the machine's limit", row.limit ? `${Math.round(100 * share(row))} %` : "not known"],
    ["tasks", String(row.tasks)]];
  if (row.why) rows.push(["no native code", row.why]);
  const sizes = Object.entries(row.sizes ?? {}).map(([name, size]) => `${name} = ${size}`);
  if (sizes.length) rows.push(["sizes", sizes.join(", ")]);
  rows.push(["not fused", row.refusals.length ? row.refusals.join("; ") : "no fusion was refused"]);
  return el("table", { class: "facts" },
    ...rows.map(([name, value]) => el("tr", {}, el("td", {}, name), el("td", {}, value))));
}

const TIP = el("div", { id: "tip", role: "tooltip", hidden: true });

function hover(entry, event) {
  tip(event, el("b", {}, entry.row.name), facts(entry.row));
  for (const other of KERNELS) {
    if (other.part !== entry.part) continue;
    other.box.classList.toggle("before", entry.row.reads.includes(other.number));
    other.box.classList.toggle("after", other.row.reads.includes(entry.number));
  }
  for (const path of entry.box.closest(".graph")?.querySelectorAll("path") ?? []) {
    const ends = [path.dataset.from, path.dataset.to].map(Number);
    path.classList.toggle("on", ends.includes(entry.number));
  }
}

function tip(event, ...content) {
  TIP.replaceChildren(...content);
  TIP.hidden = false;
  const at = event.currentTarget.getBoundingClientRect();
  const x = Math.min(at.left, innerWidth - TIP.offsetWidth - 12);
  const below = at.bottom + 10 + TIP.offsetHeight < innerHeight;
  const y = below ? at.bottom + 10 : Math.max(4, at.top - TIP.offsetHeight - 10);
  TIP.style.left = `${Math.max(4, x)}px`;
  TIP.style.top = `${y}px`;
}

function leave() {
  TIP.hidden = true;
  for (const box of document.querySelectorAll(".before, .after")) {
    box.classList.remove("before", "after");
  }
  for (const path of document.querySelectorAll("path.on")) path.classList.remove("on");
}

const DETAILS = el("aside", { id: "details", hidden: true, "aria-label": "kernel" });

function details(entry) {
  const { row, part } = entry;
  for (const old of document.querySelectorAll(".chosen")) old.classList.remove("chosen");
  entry.box.classList.add("chosen");
  const source = sourceOf(row.line)
    ?? el("p", { class: "soft" }, "The lines of the source are not known.");
  const code = part.functions[row.function] || "This kernel has no code of its own.";
  DETAILS.replaceChildren(el("button", { class: "close", type: "button", onclick: close }, "Close"),
    el("h2", {}, row.name), el("div", { class: "columns" }, el("div", {}, facts(row)),
      el("div", { class: "source" }, el("h3", {}, "Your lines"), source),
      el("div", {}, el("h3", {}, "Generated code"), el("pre", { class: "code" }, code))));
  DETAILS.hidden = false;
  document.body.classList.add("detailed");
}

function close() {
  DETAILS.hidden = true;
  document.body.classList.remove("detailed");
  for (const old of document.querySelectorAll(".chosen")) old.classList.remove("chosen");
}

// ---- memory over time
function memoryChart(part) {
  const { values, bytes: size } = part.arena;
  if (!values.length || !size) return [];
  const steps = part.kernels.length;
  const [width, height] = [1000, 160];
  const rects = values.map((value) => {
    const rect = svg("rect", { x: value.first / steps * width,
      width: (value.last - value.first + 1) / steps * width,
      y: height - (value.offset + value.bytes) / size * height,
      height: Math.max(value.bytes / size * height, 0.5) });
    const [writer, reader] = [value.first, value.last].map((step) => part.kernels[step].name);
    rect.addEventListener("mouseenter", (event) => tip(event, `${value.name}: `
      + `${bytes(value.bytes)}, written by ${writer}, last used by ${reader}`));
    rect.addEventListener("mouseleave", leave);
    return rect;
  });
  const chart = svg("svg", { class: "memory", viewBox: `0 0 ${width} ${height}`, role: "img",
    preserveAspectRatio: "none", style: `height:${height}px`, "aria-label": "memory over time" },
  ...rects, svg("path", { class: "live", d: liveLine(values, steps, size, width, height) }));
  const title = ["Memory over time ", el("small", {}, `an arena of ${bytes(size)}; from left to `
    + `right the ${count(steps, "kernel")}, upwards the addresses; the line is the bytes in use`)];
  return [fold("inner", title, true, chart)];
}

function liveLine(values, steps, size, width, height) {
  const change = new Array(steps + 1).fill(0);
  for (const value of values) {
    change[value.first] += value.bytes;
    change[value.last + 1] -= value.bytes;
  }
  let live = 0;
  const points = change.slice(0, steps).map((delta, step) => {
    live += delta;
    const y = (height - Math.min(live / size, 1) * height).toFixed(1);
    return `H${(step / steps * width).toFixed(1)}V${y}H${((step + 1) / steps * width).toFixed(1)}`;
  });
  return `M0 ${height}${points.join("")}`;
}

// ---- the toolbar
function toolbar() {
  const found = el("output", {});
  const input = el("input", { type: "search", placeholder: "Search kernels, lines, guards …",
    "aria-label": "search", oninput: () => search(input.value, found) });
  const all = (open) => () => {
    for (const part of document.querySelectorAll("main details")) part.open = open;
  };
  search("", found);
  return el("div", { class: "toolbar" }, input, found,
    el("button", { type: "button", id: "expand", onclick: all(true) }, "Expand all"),
    el("button", { type: "button", id: "collapse", onclick: all(false) }, "Collapse all"));
}

function search(text, found) {
  const wanted = text.trim().toLowerCase();
  let matches = 0;
  for (const entry of KERNELS) {
    entry.box.hidden = !entry.text.includes(wanted);
    matches += entry.box.hidden ? 0 : 1;
  }
  for (const group of document.querySelectorAll("details.line")) {
    group.hidden = !group.querySelector(".kernel:not([hidden])");
    if (wanted && !group.hidden) group.open = true;
  }
  for (const item of document.querySelectorAll(".searched")) {
    const hit = item.textContent.toLowerCase().includes(wanted);
    if (item.classList.contains("block")) item.style.opacity = hit ? "" : "0.35";
    else item.hidden = !hit;
  }
  found.textContent = `${matches.toLocaleString("en")} of ${count(KERNELS.length, "kernel")}`;
}

const sections = [graphBreaks(), recordings(), subgraphs(), ...DATA.programs.map(program)].filter(Boolean);
document.getElementById("viewer").append(toolbar(), ...sections);
document.body.append(TIP, DETAILS);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
document.documentElement.dataset.state = "ready";
