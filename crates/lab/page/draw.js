// Pictures of a topic tree under a plan, and of distributions. Knows shapes and numbers, asks for nothing.

const SVG = "http://www.w3.org/2000/svg";

// Okabe and Ito's colours that differ for all kinds of colour vision, without black and grey, each in
// three strengths: neighbours differ in hue, what repeats a hue differs in lightness.
const HUES = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"];
const MIXES = [0, 0.35, 0.6];

export function colour(store) {
  const hue = HUES[store % HUES.length];
  const mix = MIXES[Math.floor(store / HUES.length) % MIXES.length];
  const part = (at) => Math.round(parseInt(hue.slice(at, at + 2), 16) * (1 - mix) + 255 * mix);
  return [part(1), part(3), part(5)];
}

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
const dark = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b < 120;

export function element(name, attributes = {}, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

/** Bytes in three figures. */
export function amount(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB", "PB", "EB"];
  let unit = 0;
  while (bytes >= 999.5 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${short(bytes)} ${units[unit]}`;
}

export function short(value) {
  if (value >= 1e6) return value.toExponential(1);
  if (value >= 99.95 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

// Layouts: each gives boxes {shape, parent, x, y, width, height, leaf}, parents before their parts.

function icicle(root, width, height) {
  const depth = (shape) => 1 + Math.max(0, ...(shape.parts ?? []).map(depth));
  const row = height / depth(root);
  const boxes = [];
  const place = (shape, parent, x, y, room) => {
    const box = { shape, parent, x, y, width: room, height: row, leaf: !shape.parts?.length };
    boxes.push(box);
    const whole = sum(shape.parts);
    for (const part of shape.parts ?? []) {
      const share = whole > 0 ? room * part.size / whole : 0;
      place(part, box, x, y + row, share);
      x += share;
    }
  };
  place(root, null, 0, 0, width);
  return boxes;
}

function treemap(root, width, height) {
  const boxes = [];
  const place = (shape, parent, x, y, w, h) => {
    const box = { shape, parent, x, y, width: w, height: h, leaf: !shape.parts?.length };
    boxes.push(box);
    if (box.leaf) return;
    // A strip on top bears the name, where there is room for one.
    const head = h > 40 && w > 30 ? 15 : h > 12 ? 2 : 0;
    const side = w > 12 ? 1 : 0;
    squarify(shape.parts, x + side, y + head, w - 2 * side, h - head - side, (part, ...at) => place(part, box, ...at));
  };
  place(root, null, 0, 0, width, height);
  return boxes;
}

// Rows of parts, each kept as near to squares as adding one more allows (Bruls, Huizing, van Wijk 2000).
function squarify(parts, x, y, width, height, place) {
  const sorted = parts.filter((part) => part.size > 0).sort((a, b) => b.size - a.size);
  let left = sum(sorted);
  let at = 0;
  while (at < sorted.length && width > 0 && height > 0) {
    const side = Math.min(width, height);
    const scale = width * height / left;
    let end = at, total = 0, best = Infinity;
    while (end < sorted.length) {
      const more = total + sorted[end].size * scale;
      const thick = more / side;
      const worst = Math.max(sorted[at].size * scale / thick / thick, thick * thick / (sorted[end].size * scale));
      if (worst > best) break;
      best = worst; total = more; end += 1;
    }
    const thick = total / side;
    let along = 0;
    for (const part of sorted.slice(at, end)) {
      const length = part.size * scale / thick;
      if (width >= height) place(part, x, y + along, thick, length);
      else place(part, x + along, y, length, thick);
      along += length;
      left -= part.size;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
    at = end;
  }
}

const sum = (shapes) => (shapes ?? []).reduce((total, shape) => total + shape.size, 0);

/**
 * Draws a shape into an svg. `act` is told of what is done to boxes: choose(shape), zoom(shape), out(), point(store).
 */
export function draw(svg, root, how, act) {
  const width = svg.clientWidth || 600, height = svg.clientHeight || 400;
  const had = document.activeElement?.closest?.("svg") === svg ? document.activeElement.dataset.key : null;
  const boxes = (how === "treemap" ? treemap : icicle)(root, width, height).filter((box) => box.width >= 0.7 && box.height >= 0.7);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const hatch = `hatch-${svg.id}`;
  const pattern = element("pattern", { id: hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    element("rect", { width: 6, height: 6, style: "fill:var(--split);stroke:none" }),
    element("line", { x1: 0, y1: 0, x2: 0, y2: 6, style: "stroke:var(--line);stroke-width:2" }));
  svg.replaceChildren(element("defs", {}, pattern));
  boxes.forEach((box, at) => {
    box.g = one(box, hatch, at);
    box.parts = [];
    box.parent?.parts?.push(box);
    svg.append(box.g);
  });
  walk(svg, boxes, act);
  const again = boxes.find((box) => box.g.dataset.key === had) ?? boxes[0];
  again?.g.setAttribute("tabindex", 0);
  if (had !== null) again?.g.focus();
}

function one(box, hatch, at) {
  const { shape } = box;
  const whole = shape.store !== undefined;
  const paint = whole ? colour(shape.store) : null;
  const g = element("g", { class: whole ? "box" : "box split", role: "treeitem", tabindex: -1 });
  g.dataset.key = `${shape.kind}:${shape.node ?? ""}:${shape.node === undefined ? `${shape.store ?? ""}` : ""}`;
  g.dataset.at = at;
  if (whole) g.dataset.store = shape.store;
  const name = shape.label === "" ? (shape.node === 0 ? "everything" : "(empty level)") : shape.label;
  const where = whole ? `store ${shape.store}` : "divided among stores";
  const told = `${name}: ${amount(shape.bytes)}, ${shape.topics.toLocaleString("en")} topics, ${where}`;
  g.setAttribute("aria-label", told);
  const rect = element("rect", { x: box.x, y: box.y, width: box.width, height: box.height });
  rect.style.fill = whole ? css(paint) : `url(#${hatch})`;
  g.append(element("title", {}, told), rect);
  if (box.width > 26 && box.height > 12) {
    const room = Math.floor((box.width - 6) / 6.2);
    let text = whole ? `${name} · ${shape.store}` : name;
    if (text.length > room) text = whole && room < 8 ? `${shape.store}` : `${text.slice(0, Math.max(1, room - 1))}…`;
    const label = element("text", { x: box.x + 3, y: box.y + Math.min(12, box.height - 3) }, text);
    if (whole && dark(paint)) label.style.fill = "#fff";
    g.append(label);
  }
  return g;
}

// Pointing, clicking and the keys.
function walk(svg, boxes, act) {
  const of = (event) => boxes[event.target.closest?.(".box")?.dataset.at];
  const go = (box) => {
    if (!box) return;
    for (const other of svg.querySelectorAll('.box[tabindex="0"]')) other.setAttribute("tabindex", -1);
    box.g.setAttribute("tabindex", 0);
    box.g.focus();
  };
  svg.onclick = (event) => { const box = of(event); if (box) { go(box); act.choose(box.shape); } };
  svg.ondblclick = (event) => { const box = of(event); if (box) act.zoom(box.shape); };
  svg.onpointerover = svg.onfocus = (event) => act.point(of(event)?.shape.store);
  svg.onpointerleave = () => act.point(undefined);
  svg.addEventListener("focusin", svg.onfocus);
  svg.onkeydown = (event) => {
    const box = of(event);
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = box.parent?.parts ?? [box];
    const at = row.indexOf(box);
    const keys = {
      ArrowUp: () => go(box.parent),
      ArrowDown: () => go(box.parts[0]),
      ArrowLeft: () => go(row[at - 1]),
      ArrowRight: () => go(row[at + 1]),
      Home: () => go(boxes[0]),
      Enter: () => act.choose(box.shape),
      " ": () => act.choose(box.shape),
      z: () => act.zoom(box.shape),
      Escape: () => act.out(),
      Backspace: () => act.out(),
    };
    const action = keys[event.key];
    if (action) { event.preventDefault(); action(); }
  };
}

/** Outlines the boxes of a store, in all pictures. */
export function outline(svgs, stores) {
  svgs.forEach((svg, at) => {
    for (const g of svg.querySelectorAll(".same")) g.classList.remove("same");
    if (stores[at] === undefined) return;
    for (const g of svg.querySelectorAll(`[data-store="${stores[at]}"]`)) g.classList.add("same");
  });
}

/**
 * Draws distributions: curves of [{name, side, values}], by percent of reads, on a logarithmic scale.
 * `read` is told the percent pointed at.
 */
export function plot(svg, curves, unit, read) {
  const width = svg.clientWidth || 500, height = svg.clientHeight || 300;
  const left = 62, right = 10, top = 8, bottom = 34;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  // Waste may be nothing, which no logarithm shows: a byte stands in for it.
  const log = (value) => Math.log10(Math.max(value, 1));
  const most = Math.max(1, ...curves.map((curve) => log(curve.values.at(-1) ?? 1)));
  const x = (percent) => left + (width - left - right) * percent / 100;
  const y = (value) => top + (height - top - bottom) * (1 - log(value) / most);
  svg.replaceChildren();
  const step = Math.max(1, Math.ceil(most / 7));
  for (let power = 0; power <= most + 1e-9; power += step) {
    const label = unit === "bytes" ? (power === 0 ? "≤ 1 B" : amount(10 ** power)) : `${short(10 ** power)} ×`;
    svg.append(element("line", { class: "grid", x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }),
      element("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, label));
  }
  for (const percent of [0, 25, 50, 75, 100]) {
    svg.append(element("text", { x: x(percent), y: height - bottom + 16, "text-anchor": percent === 100 ? "end" : "middle" }, `${percent} %`));
  }
  svg.append(element("text", { x: x(50), y: height - 4, "text-anchor": "middle" }, "of reads do no worse"));
  for (const curve of [...curves].sort((a, b) => Boolean(a.side) - Boolean(b.side))) {
    if (!curve.values.length) continue;
    const path = curve.values.map((value, percent) => `${percent ? "L" : "M"}${x(percent).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    svg.append(element("path", { d: path, class: curve.side ?? "" }, element("title", {}, curve.name)));
  }
  const cursor = element("line", { class: "cursor", y1: top, y2: height - bottom, x1: -9, x2: -9 });
  svg.append(cursor);
  svg.onpointermove = (event) => {
    const percent = Math.round(((event.clientX - svg.getBoundingClientRect().left) - left) / (width - left - right) * 100);
    if (percent < 0 || percent > 100) return;
    cursor.setAttribute("x1", x(percent)); cursor.setAttribute("x2", x(percent));
    read(percent);
  };
}
