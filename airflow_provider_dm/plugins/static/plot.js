// A small plot of one value over time: an area with a line, a highest value, and a pointer for mouse and arrow keys.

import { h } from "./dom.js";
import { duration, moment } from "./format.js";

const WIDTH = 600;
const HEIGHT = 100;
const pointed = new Map();

const NICE = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

/** The top of the axis: a round number that all values fit below. */
export function top(values, nice) {
  const highest = Math.max(1, ...values.filter((value) => value !== null));
  const found = nice.find((step) => step >= highest);
  if (found !== undefined) return found;
  const size = 10 ** Math.floor(Math.log10(highest));
  return Math.ceil(highest / size) * size;
}

const POWERS = Array.from({ length: 24 }, (_, index) => [1, 2, 5][index % 3] * 10 ** Math.floor(index / 3));
export const axisOf = { lag: NICE, rate: POWERS };

function paths(points, value, highest) {
  const [first, last] = [points[0].t, points.at(-1).t];
  const x = (t) => (last === first ? WIDTH : ((t - first) / (last - first)) * WIDTH);
  const y = (found) => HEIGHT - (Math.min(found, highest) / highest) * (HEIGHT - 4) - 1;
  const runs = [];
  let run = [];
  for (const point of points) {
    if (point[value] === null) {
      if (run.length) runs.push(run);
      run = [];
    } else run.push(point);
  }
  if (run.length) runs.push(run);
  const corner = (point) => `${x(point.t).toFixed(1)} ${y(point[value]).toFixed(1)}`;
  const line = runs.map((one) => `M${one.map(corner).join("L")}`).join("");
  const area = runs
    .map((one) => `M${x(one[0].t).toFixed(1)} ${HEIGHT}L${one.map(corner).join("L")}L${x(one.at(-1).t).toFixed(1)} ${HEIGHT}Z`)
    .join("");
  return { line, area, x, y };
}

/** A plot without axes, for a row of a table. */
export function sparkline(points, value) {
  const known = points.filter((point) => point[value] !== null);
  if (known.length < 2) return null;
  const { line, area } = paths(points, value, top(points.map((point) => point[value]), axisOf[value]));
  return h(
    "svg",
    { class: `spark ${value}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    h("path", { class: "area", d: area }),
    h("path", { class: "line", d: line }),
  );
}

/** A plot with its title, axis and pointer. `show` formats a value. */
export function plot({ key, title, points, value, show }) {
  const known = points.filter((point) => point[value] !== null);
  const head = h("div", { class: "plot-title" }, h("span", {}, title), h("output", { "data-plot-value": key }, ""));
  if (known.length < 2) {
    return h("figure", { class: `plot ${value}`, "data-key": key }, head, h("p", { class: "plot-empty" }, "No measurements yet"));
  }
  const highest = top(points.map((point) => point[value]), axisOf[value]);
  const { line, area, x, y } = paths(points, value, highest);
  const index = pointed.has(key) ? Math.min(pointed.get(key), points.length - 1) : null;
  const at = index === null ? null : points[index];
  const most = known.reduce((one, other) => (other[value] >= one[value] ? other : one));
  head.lastChild.textContent =
    at === null ? "" : `${moment(new Date(at.t * 1000))} · ${at[value] === null ? "unknown" : show(at[value])}`;
  const span = points.at(-1).t - points[0].t;
  const summary = `${title} over ${duration(span)}: now ${show(known.at(-1)[value])}, highest ${show(most[value])} at ${moment(new Date(most.t * 1000))}.`;
  return h(
    "figure",
    { class: `plot ${value}`, "data-key": key },
    head,
    h(
      "div",
      { class: "plot-area", tabindex: "0", role: "img", "aria-label": summary, "data-plot": key, "data-count": points.length },
      h("span", { class: "plot-top" }, show(highest)),
      h(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
        h("line", { class: "grid", x1: 0, x2: WIDTH, y1: 1, y2: 1 }),
        h("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
        h("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
        h("path", { class: "area", d: area }),
        h("path", { class: "line", d: line }),
        at === null ? null : h("line", { class: "pointer", x1: x(at.t), x2: x(at.t), y1: 0, y2: HEIGHT }),
        at === null || at[value] === null ? null : h("line", { class: "pointer", x1: 0, x2: WIDTH, y1: y(at[value]), y2: y(at[value]) }),
      ),
    ),
    h("div", { class: "plot-times" }, h("span", {}, `${duration(span)} ago`), h("span", {}, "now")),
  );
}

/** Make mouse and arrow keys select a moment of a plot; `redraw` shows the selection. */
export function listenToPlots(root, redraw) {
  const area = (event) => event.target.closest?.("[data-plot]");
  root.addEventListener("pointermove", (event) => {
    const found = area(event);
    if (!found) return;
    const box = found.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    pointed.set(found.dataset.plot, nearest(found, share));
    redraw();
  });
  root.addEventListener("pointerout", (event) => {
    const found = area(event);
    if (found && !found.contains(event.relatedTarget) && pointed.delete(found.dataset.plot)) redraw();
  });
  root.addEventListener("keydown", (event) => {
    const found = area(event);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!found || step === undefined) return;
    event.preventDefault();
    const points = Number(found.dataset.count);
    const now = pointed.get(found.dataset.plot) ?? points;
    pointed.set(found.dataset.plot, Math.min(points - 1, Math.max(0, now + step)));
    redraw();
  });
  root.addEventListener("focusout", (event) => {
    const found = area(event);
    if (found && pointed.delete(found.dataset.plot)) redraw();
  });
}

const timesOf = new Map();
export const rememberTimes = (key, points) => timesOf.set(key, points.map((point) => point.t));

function nearest(found, share) {
  const times = timesOf.get(found.dataset.plot) ?? [];
  const t = times[0] + share * (times.at(-1) - times[0]);
  let best = 0;
  times.forEach((one, index) => {
    if (Math.abs(one - t) < Math.abs(times[best] - t)) best = index;
  });
  return best;
}
