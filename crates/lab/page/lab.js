// The lab's page: what is chosen, what is asked of the server for it, and where the answers go.

import { amount, draw, outline, plot, short } from "./draw.js";

const $ = (id) => document.getElementById(id);
const SIDES = ["left", "right"];
/** Most stores on the slider; the number beside it goes further. */
const SLIDER_STORES_MAX = 4096;

let info = null;
const state = { node: 0, chosen: null, shapes: {}, plans: new Map(), pointed: false };
/** Ends what is under way when something newer is asked for. */
let asking = new AbortController();
let costing = new AbortController();

async function ask(path, query, signal) {
  const answer = await fetch(`/api/${path}?${new URLSearchParams(query)}`, { signal });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error ?? answer.statusText);
  return body;
}

function say(error) {
  if (error?.name === "AbortError") return;
  $("error").textContent = error ? String(error.message ?? error) : "";
  $("error").hidden = !error;
}

const planOf = (planner) => ({ planner, stores: $("stores").value, aim: $("aim").value, over: $("over").value });

// The slider counts in logarithms, so that few stores can be set as finely as many.
const most = () => Math.max(2, Math.min(SLIDER_STORES_MAX, info.topics));
const toStores = (place) => Math.max(1, Math.round(Math.exp(Math.log(most()) * place / 1000)));
const toPlace = (stores) => Math.round(1000 * Math.log(Math.max(1, stores)) / Math.log(most()));

// Pictures.

async function refresh() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  say(null);
  state.plans.clear();
  remember();
  for (const side of SIDES) $(`${side}-picture`).classList.add("waiting");
  listPlans();
  try {
    await Promise.all(SIDES.map((side) => refreshSide(side, signal)));
    // The other planners fill the tables one after another, behind what is looked at.
    cost();
    for (const planner of info.planners) {
      if (!state.plans.has(planner)) await load(planner, signal);
    }
  } catch (error) { say(error); }
}

async function refreshSide(side, signal) {
  const planner = $(side).value;
  const view = await ask("view", { ...planOf(planner), node: state.node, size: $("size").value }, signal);
  state.shapes[side] = view.shape;
  above(view.above);
  $(`${side}-picture`).classList.remove("waiting");
  paint(side);
  await load(planner, signal);
}

async function load(planner, signal) {
  try {
    state.plans.set(planner, await ask("plan", planOf(planner), signal));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    state.plans.set(planner, { error: error.message });
  }
  listPlans();
  curves();
}

function paint(side) {
  const shape = state.shapes[side];
  if (!shape) return;
  draw($(`${side}-picture`), shape, $("shape").value, {
    choose: (shape) => choose(shape),
    zoom: (shape) => { if (shape.kind === "node" && (shape.parts?.length || shape.more)) zoom(shape.node); },
    out: () => { const up = [...$("above").querySelectorAll("button")].at(-2); if (up) zoom(Number(up.dataset.node)); },
    point: (store) => outline(SIDES.map((other) => $(`${other}-picture`)), SIDES.map((other) => (other === side ? store : undefined))),
  });
  mark();
}

function zoom(node) {
  state.node = node;
  refresh();
}

function above(path) {
  $("above").replaceChildren(...path.flatMap(({ node, label }, at) => {
    const button = document.createElement("button");
    button.textContent = node === 0 ? "everything" : label === "" ? "(empty level)" : label;
    button.dataset.node = node;
    button.onclick = () => zoom(node);
    if (at === path.length - 1) button.setAttribute("aria-current", "true");
    return at > 0 ? [" / ", button] : [button];
  }));
}

// What is chosen, and what reading it costs.

function choose(shape) {
  if (shape.node === undefined) {
    state.chosen = null;
    $("cost").hidden = true;
    $("zoom").disabled = true;
    const where = shape.store === undefined ? "divided among several stores" : `all in store ${shape.store}`;
    $("chosen").textContent = `${shape.label} too small to draw, ${amount(shape.bytes)} together, ${where}. Zoom in or type a name to see one.`;
    return;
  }
  state.chosen = shape.node;
  cost();
}

function mark() {
  for (const side of SIDES) {
    for (const g of $(`${side}-picture`).querySelectorAll(".box")) {
      g.classList.toggle("chosen", state.chosen !== null && g.dataset.key.startsWith(`node:${state.chosen}:`));
    }
  }
}

async function cost() {
  costing.abort();
  mark();
  if (state.chosen === null) return;
  costing = new AbortController();
  const { signal } = costing;
  const node = state.chosen;
  const body = $("cost").tBodies[0];
  body.replaceChildren();
  $("zoom").disabled = node === state.node;
  const order = [...new Set([...SIDES.map((side) => $(side).value), ...info.planners])];
  for (const planner of order) {
    const row = body.insertRow();
    side(row, planner);
    try {
      const { name, topic, subtree } = await ask("cost", { ...planOf(planner), node }, signal);
      const useful = [topic && `topic ${amount(topic.useful)} in ${topic.messages.toLocaleString("en")} messages`,
        subtree && `subtree ${amount(subtree.useful)} in ${subtree.topics.toLocaleString("en")} topics`].filter(Boolean).join(", ");
      $("chosen").textContent = `${name === "" ? "everything" : name}: ${useful} useful.`;
      const ratio = (read) => (read ? `${short(read.read / Math.max(1, read.useful))} ×` : "–");
      cells(row, [topic ? amount(topic.read) : "–", ratio(topic), topic ? topic.store : "–",
        subtree ? amount(subtree.read) : "–", ratio(subtree), subtree ? subtree.stores.toLocaleString("en") : "–"]);
      $("cost").hidden = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      note(row, error.message, 6);
    }
  }
}

// Tables.

function side(row, planner) {
  const cell = row.insertCell();
  cell.textContent = planner;
  const sides = SIDES.filter((side) => $(side).value === planner);
  if (sides.length) { row.className = "shown"; cell.dataset.side = `(${sides.join(" and ")})`; }
}

function cells(row, texts) {
  for (const text of texts) row.insertCell().textContent = text;
}

function note(row, text, columns) {
  const cell = row.insertCell();
  cell.className = "note";
  cell.colSpan = columns;
  cell.textContent = text;
}

function listPlans() {
  const body = $("lenses").tBodies[0];
  body.replaceChildren();
  const base = state.plans.get($("left").value);
  for (const planner of info.planners) {
    const row = body.insertRow();
    side(row, planner);
    const plan = state.plans.get(planner);
    if (!plan || plan.error) { note(row, plan?.error ?? "…", 11); continue; }
    cells(row, [plan.stores.toLocaleString("en"), amount(plan.largest_bytes), plan.plan_ms.toFixed(1)]);
    for (const lens of ["topics", "subtrees", "recorded"]) {
      const figures = plan[lens];
      if (!figures) continue;
      const against = base?.[lens]?.wasted_bytes;
      const times = against > 0 ? `${short(figures.wasted_bytes / against)} ×` : figures.wasted_bytes > 0 && against === 0 ? "∞" : "–";
      cells(row, [amount(figures.wasted_bytes), times, amount(figures.worst_wasted_bytes), `${short(figures.worst_ratio)} ×`]);
      row.cells[row.cells.length - 2].title = figures.worst_wasted;
      row.cells[row.cells.length - 1].title = figures.worst_ratio_of;
    }
  }
  for (const at of SIDES) {
    const plan = state.plans.get($(at).value);
    const told = plan && !plan.error ? `: ${plan.stores.toLocaleString("en")} ${plan.stores === 1 ? "store" : "stores"}, ${amount(plan.topics.wasted_bytes)} wasted over all topics` : "";
    $(`${at}-title`).textContent = `${$(at).value}${told}`;
  }
}

function curves() {
  const [over, of] = [$("curve-over").value, $("curve-of").value];
  const shown = info.planners.flatMap((planner) => {
    const values = state.plans.get(planner)?.curves?.[over]?.[of];
    return values ? [{ name: planner, values, side: SIDES.find((side) => $(side).value === planner) }] : [];
  });
  const form = of === "wasted" ? amount : (value) => `${short(value)} ×`;
  plot($("curve"), shown, of === "wasted" ? "bytes" : "ratio", (percent) => {
    const told = shown.filter((curve) => curve.side).map((curve) => `${curve.name} ${form(curve.values[percent] ?? 0)}`);
    state.pointed = true;
    $("readout").textContent = `${percent} % of reads: ${told.join(", ")}`;
  });
  const worst = shown.filter((curve) => curve.side).map((curve) => `${curve.name}: half of reads up to ${form(curve.values[50] ?? 0)}, the worst ${form(curve.values[100] ?? 0)}`);
  $("curve").setAttribute("aria-label", `Distribution. ${worst.join("; ")}`);
  if (!state.pointed) $("readout").textContent = worst.join("; ");
}

// The address keeps what is chosen, so that a picture can be sent to somebody.
const KEPT = ["stores", "left", "right", "aim", "over", "shape", "size"];

function remember() {
  const query = new URLSearchParams(KEPT.map((id) => [id, $(id).value]));
  query.set("node", state.node);
  history.replaceState(null, "", `#${query}`);
}

function recall() {
  const query = new URLSearchParams(location.hash.slice(1));
  for (const id of KEPT) if (query.has(id)) $(id).value = query.get(id);
  for (const id of KEPT.slice(1)) if ($(id).selectedIndex < 0) $(id).selectedIndex = 0;
  const node = Number(query.get("node"));
  if (Number.isInteger(node) && node >= 0 && node < info.nodes) state.node = node;
}

let timer = 0;
function later(action, ms) {
  clearTimeout(timer);
  timer = setTimeout(action, ms);
}

function listen() {
  $("slider").oninput = () => { $("stores").value = toStores($("slider").value); later(refresh, 150); };
  $("stores").onchange = () => {
    $("stores").value = Math.min(1e6, Math.max(1, Math.round(Number($("stores").value)) || 1));
    $("slider").value = toPlace($("stores").value);
    refresh();
  };
  for (const id of ["left", "right", "aim", "over", "size"]) $(id).onchange = () => { state.pointed = false; refresh(); };
  $("shape").onchange = () => { remember(); SIDES.forEach(paint); };
  for (const id of ["curve-over", "curve-of"]) $(id).onchange = () => { state.pointed = false; curves(); };
  $("controls").onsubmit = (event) => event.preventDefault();
  $("theme").onchange = () => {
    if ($("theme").value) document.documentElement.dataset.theme = $("theme").value;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("theme", $("theme").value);
  };
  $("zoom").onclick = () => { if (state.chosen !== null) zoom(state.chosen); };
  $("text").oninput = () => later(suggest, 120);
  $("find").onsubmit = async (event) => {
    event.preventDefault();
    try {
      const { node } = await ask("find", { text: $("text").value });
      if (node === null) { say(`no topic and no subtree is named ${$("text").value}`); return; }
      say(null);
      state.chosen = node;
      cost();
    } catch (error) { say(error); }
  };
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    later(() => { SIDES.forEach(paint); curves(); }, 100);
  });
}

async function suggest() {
  try {
    const { found } = await ask("find", { text: $("text").value });
    $("found").replaceChildren(...found.map(({ name }) => Object.assign(document.createElement("option"), { value: name })));
  } catch (error) { say(error); }
}

async function start() {
  $("theme").value = localStorage.getItem("theme") ?? "";
  if ($("theme").value) document.documentElement.dataset.theme = $("theme").value;
  info = await ask("info", {});
  $("name").textContent = info.name;
  document.title = `${info.name} · Arioso lab`;
  const count = (number) => number.toLocaleString("en");
  $("facts").textContent = `${count(info.topics)} topics, ${count(info.messages)} messages, ${amount(info.bytes)}`;
  if (info.bad_lines) {
    $("bad").hidden = false;
    $("bad").firstElementChild.textContent = `${count(info.bad_lines)} bad lines were left out`;
    $("bad").lastElementChild.append(...info.bad.map(({ line, why }) => Object.assign(document.createElement("li"), { textContent: `line ${line}: ${why}` })));
  }
  document.body.classList.toggle("has-recorded", info.recorded);
  if (!info.recorded) for (const option of document.querySelectorAll('option[value="recorded"]')) option.remove();
  const heads = $("lenses").tHead.rows[1];
  for (let lens = 0; lens < (info.recorded ? 3 : 2); lens += 1) {
    for (const head of ["wasted", "times", "worst", "ratio"]) heads.append(Object.assign(document.createElement("th"), { textContent: head }));
  }
  for (const side of SIDES) {
    $(side).append(...info.planners.map((planner) => new Option(info.rules.includes(planner) ? `${planner} (rule)` : planner, planner)));
  }
  $("left").value = "adaptive";
  $("right").value = "three-level";
  $("stores").value = info.stores;
  $("aim").value = info.aim;
  $("over").value = info.over;
  recall();
  $("slider").value = toPlace($("stores").value);
  listen();
  refresh();
}

start().catch(say);
