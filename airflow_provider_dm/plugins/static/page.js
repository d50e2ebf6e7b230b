// The page: polls the server every two seconds while it is visible, shows the answer, and follows links.

import { h, render } from "./dom.js";
import { Refused, read, withPoints } from "./data.js";
import { begin, refuse } from "./actions.js";
import { listenToPlots } from "./plot.js";
import { errorBox, root } from "./parts.js";
import { overview } from "./overview.js";
import { detail } from "./detail.js";

const POLL_MS = 2000;
const SLOW_MS = 5000;
const parameters = new URLSearchParams(location.search);
const filtered = ["task", "source", "dag_id"].some((name) => parameters.has(name));
const framed = window.parent !== window;

const state = { page: null, failure: null, answeredAt: null };

function show() {
  const page = state.page;
  render(document.getElementById("notice"), notice());
  if (page === null) return;
  const context = { filtered, mayAct: page.user.mayAct };
  const single = filtered && page.tasks.length === 1;
  render(document.getElementById("top"), head(single ? page.tasks[0].taskName : null));
  render(document.getElementById("main"), single ? detail(page, context) : overview(page, context));
  document.body.classList.toggle("stale", state.failure !== null);
  document.title = single ? `${page.tasks[0].taskName} · DM` : "DM";
}

const head = (task) =>
  h(
    "div",
    { class: "head" },
    h("nav", { "aria-label": "Where you are" }, framed ? null : h("a", { href: `${root}/` }, "Airflow"), filtered ? h("a", { href: "./" }, "All tasks") : h("span", {}, "DM"), task ? h("span", { "aria-current": "page" }, task) : null),
    h("span", { class: `pulse ${state.failure ? "off" : ""}` }, state.failure ? "not up to date" : "live"),
  );

function notice() {
  const failure = state.failure;
  if (failure === null) return null;
  if (failure.status === 401) {
    return h("div", { class: "error" }, h("p", {}, "Your session has ended. ", h("a", { href: `${root}/`, "data-airflow": true }, "Log in again")));
  }
  const since = state.answeredAt === null ? "" : `The page shows the state at ${state.answeredAt.toLocaleTimeString()}.`;
  if (failure.error) return [errorBox(failure.error), since ? h("p", { class: "muted" }, since) : null];
  return h("div", { class: "error" }, h("p", {}, `${failure.message} ${since}`));
}

async function refresh() {
  try {
    state.page = withPoints(await read("status", location.search));
    state.failure = null;
    state.answeredAt = new Date();
  } catch (error) {
    state.failure = error instanceof Refused ? error : new Refused(0, { detail: "Airflow's API server does not answer." });
    if (state.page === null) render(document.getElementById("main"));
  }
  show();
}

async function poll() {
  try {
    if (!document.hidden) await refresh();
  } finally {
    setTimeout(poll, state.failure ? SLOW_MS : POLL_MS);
  }
}

/** Airflow's frame may not be navigated from inside, but its history is of the same origin, and its router listens. */
function leave(event) {
  const link = event.target.closest?.("a[data-airflow]");
  if (!link || !framed || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  window.parent.history.pushState({}, "", link.href);
  window.parent.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
}

function press(event) {
  const pressed = event.target.closest?.("[data-act]");
  if (pressed) begin(JSON.parse(pressed.dataset.act), state.page, refresh).catch(refuse);
}

document.addEventListener("click", leave);
document.addEventListener("click", press);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
listenToPlots(document.getElementById("main"), show);
document.body.classList.toggle("framed", framed);
poll();
