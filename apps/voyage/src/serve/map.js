// Draws coast, ports and the route on a canvas; plain longitude and latitude, three worlds side by side.
"use strict";

const canvas = document.getElementById("map");
const pen = canvas.getContext("2d");
const told = (id, text) => { document.getElementById(id).textContent = text; };
const view = { lon: 20, lat: 25, scale: 3 }; // centre; pixels a degree
let rings = [], ports = [], picked = [], route = null;

const SCALE_MIN = 2, SCALE_MAX = 400, PICK_PX = 12;
// Ports of a size are drawn, and can be clicked, from this scale on.
const SHOWN_FROM = { large: 0, medium: 6, small: 14, tiny: 28 };
const COLOURS = { sea: "#cfe3ee", land: "#f3efe2", coast: "#8a9a86", port: "#2b5d7d", picked: "#c2410c", route: "#c2410c" };

function toPixel(lon, lat) {
  return [canvas.clientWidth / 2 + (lon - view.lon) * view.scale, canvas.clientHeight / 2 - (lat - view.lat) * view.scale];
}

// Every turn of the globe that shows something.
function turns() {
  const half = canvas.clientWidth / 2 / view.scale, found = [];
  for (let turn = -720; turn <= 720; turn += 360) {
    if (view.lon + half > turn - 200 && view.lon - half < turn + 560) found.push(turn);
  }
  return found;
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = COLOURS.sea;
  pen.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  for (const turn of turns()) {
    drawLand(turn);
    drawRoute(turn);
    drawPorts(turn);
  }
}

function drawLand(turn) {
  pen.beginPath();
  for (const ring of rings) {
    for (let i = 0; i < ring.length; i += 2) {
      const [x, y] = toPixel(ring[i] / 100 + turn, ring[i + 1] / 100);
      i === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y);
    }
    pen.closePath();
  }
  pen.fillStyle = COLOURS.land;
  pen.fill("evenodd");
  pen.strokeStyle = COLOURS.coast;
  pen.lineWidth = 0.6;
  pen.stroke();
}

function drawRoute(turn) {
  if (!route) return;
  pen.beginPath();
  route.points.forEach(([lon, lat], i) => {
    const [x, y] = toPixel(lon + turn, lat);
    i === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y);
  });
  pen.strokeStyle = COLOURS.route;
  pen.lineWidth = 2.5;
  pen.stroke();
}

function drawPorts(turn) {
  for (const port of ports) {
    const isPicked = picked.includes(port);
    if (!isPicked && view.scale < SHOWN_FROM[port.size]) continue;
    const [x, y] = toPixel(port.lon + turn, port.lat);
    if (x < -9 || y < -9 || x > canvas.clientWidth + 9 || y > canvas.clientHeight + 9) continue;
    pen.beginPath();
    pen.arc(x, y, isPicked ? 5 : 2.2, 0, 7);
    pen.fillStyle = isPicked ? COLOURS.picked : COLOURS.port;
    pen.fill();
    if (isPicked || view.scale > 60) {
      pen.fillStyle = "#123";
      pen.fillText(port.name, x + 7, y + 4);
    }
  }
}

function portAt(x, y) {
  let best = null, bestPx = PICK_PX;
  for (const turn of turns()) {
    for (const port of ports) {
      if (view.scale < SHOWN_FROM[port.size]) continue;
      const [px, py] = toPixel(port.lon + turn, port.lat);
      const far = Math.hypot(px - x, py - y);
      if (far < bestPx) { best = port; bestPx = far; }
    }
  }
  return best;
}

function pick(port) {
  if (picked.length === 2) picked = [];
  picked.push(port);
  route = null;
  told("from", picked[0].name);
  told("to", picked[1] ? picked[1].name : "–");
  for (const id of ["distance", "time", "through"]) told(id, "–");
  if (picked.length === 2) ask();
  draw();
}

async function ask() {
  const [from, to] = picked;
  const avoid = [...document.getElementById("avoid").selectedOptions].map((o) => o.value).join(",");
  const speed = Number(document.getElementById("speed").value);
  const query = new URLSearchParams({ from: `${from.lon},${from.lat}`, to: `${to.lon},${to.lat}`, avoid, speed_knots: speed });
  told("problem", "");
  told("state", "asking");
  try {
    const response = await fetch(`/api/route?${query}`);
    const answer = await response.json();
    if (picked[0] !== from || picked[1] !== to) return; // an older question
    if (!response.ok) throw new Error(answer.error);
    route = answer;
    told("distance", `${Math.round(answer.km)} km, ${Math.round(answer.nm)} nm`);
    told("time", `${(answer.hours / 24).toFixed(1)} days at ${speed} knots`);
    told("through", answer.passages.join(", ") || "open sea");
  } catch (error) {
    told("problem", error.message);
  }
  told("state", "ready");
  draw();
}

let held = null;
canvas.addEventListener("pointerdown", (e) => {
  held = { x: e.clientX, y: e.clientY, lon: view.lon, lat: view.lat, moved: false };
  canvas.setPointerCapture(e.pointerId);
});
canvas.addEventListener("pointermove", (e) => {
  if (!held) return;
  const [dx, dy] = [e.clientX - held.x, e.clientY - held.y];
  held.moved ||= Math.hypot(dx, dy) > 4;
  if (!held.moved) return;
  view.lon = held.lon - dx / view.scale;
  view.lat = Math.max(-85, Math.min(85, held.lat + dy / view.scale));
  draw();
});
canvas.addEventListener("pointerup", (e) => {
  const clicked = held && !held.moved;
  held = null;
  view.lon = ((view.lon + 540) % 360 + 360) % 360 - 180;
  const port = clicked ? portAt(e.clientX, e.clientY) : null;
  if (port) pick(port);
});
canvas.addEventListener("wheel", (e) => {
  e.preventDefault();
  const [x, y] = [e.clientX - canvas.clientWidth / 2, canvas.clientHeight / 2 - e.clientY];
  const scale = Math.max(SCALE_MIN, Math.min(SCALE_MAX, view.scale * Math.exp(-e.deltaY / 400)));
  view.lon += x / view.scale - x / scale;
  view.lat += y / view.scale - y / scale;
  view.scale = scale;
  draw();
}, { passive: false });
for (const id of ["avoid", "speed"]) {
  document.getElementById(id).addEventListener("change", () => { if (picked.length === 2) ask(); });
}
window.addEventListener("resize", draw);

// Where a port stands on the page; lets a test click it.
window.whereIs = (name) => {
  const port = ports.find((p) => p.name === name);
  return port ? toPixel(port.lon, port.lat).map(Math.round) : null;
};

async function load() {
  const [coast, list, passages] = await Promise.all(
    ["/api/coast", "/api/ports", "/api/passages"].map(async (path) => (await fetch(path)).json()));
  rings = coast;
  ports = list.map(([name, country, size, lon, lat]) => ({ name, country, size, lon, lat }));
  for (const passage of passages.filter((p) => !p.closed && (p.kind === "canal" || p.kind === "strait"))) {
    document.getElementById("avoid").add(new Option(passage.name));
  }
  view.scale = Math.max(SCALE_MIN, canvas.clientWidth / 360);
  told("state", "ready");
  draw();
}
load().catch((error) => { told("problem", error.message); told("state", "failed"); });
