// Pieces that several views show: pills, places, errors, locks, links to Airflow.

import { h } from "./dom.js";
import { copyOf } from "./data.js";
import { count, distance, duration, place } from "./format.js";

const ICONS = {
  good: "M5 12.5l4.5 4.5L19 7.5",
  busy: "M5 12h13M12.5 6.5L18 12l-5.5 5.5",
  warn: "M12 6v7.5M12 17.5v.5",
  bad: "M7 7l10 10M17 7L7 17",
  idle: "M6 12h12",
};

export function icon(level) {
  return h(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" },
    h("path", { d: ICONS[level] }),
  );
}

/** A state as colour, sign and text. */
export const pill = (level, state) => h("span", { class: `pill ${level}` }, icon(level), state);

export const levelOfStage = (stage) => ({ Running: "good", New: "busy", Paused: "warn" })[stage] ?? "idle";

/** A location in a log, in the format of `dmctl`: file and position. */
export function placeText(text) {
  const found = place(text);
  if (found === null) return h("span", { class: "unknown" }, "not known yet");
  return h("span", { class: "place" }, found.file, h("wbr"), h("span", { class: "position" }, `:${found.position}`));
}

export const root = location.pathname.replace(/\/dm\/.*$/, "");

/** A link to a page of Airflow; inside Airflow's frame, Airflow opens the page (page.js). */
export const airflowLink = (path, text) => h("a", { href: `${root}${path}`, "data-airflow": true }, text);

export const taskLink = (name, text = name) => h("a", { href: `?task=${encodeURIComponent(name)}` }, text);

/** "Copying" or "Sync", with how far the copy is. */
export function phase(subtask, source) {
  const copy = copyOf(subtask, source);
  if (copy === null || subtask.unit === "Sync") return subtask.unit === "Load" ? "Copy" : subtask.unit;
  return copy.chunks ? `Copy ${Math.floor((100 * copy.chunks_done) / copy.chunks)} %` : "Copy";
}

export const lagOf = (subtask) => {
  const lag = subtask.sync?.secondsBehindMaster;
  return lag === undefined || lag === null ? null : Number(lag);
};

export const lagText = (subtask) => (lagOf(subtask) === null ? "–" : duration(lagOf(subtask)));

/** Code in backticks becomes code; numbered steps of a remedy become a list. */
export function prose(text) {
  text = text.replace(/`([^`]+)`\.`([^`]+)`/g, "`$1.$2`");
  const inline = (part) => part.split(/(`[^`]+`)/).map((one) => (/^`[^`]+`$/.test(one) ? h("code", {}, one.slice(1, -1)) : one));
  const steps = text.split(/(?:^|\s)\d\. /);
  if (steps.length < 3) return inline(text);
  return [inline(steps[0]), h("ol", {}, steps.slice(1).map((step) => h("li", {}, inline(step))))];
}

/** What happened: the message of an error ends with the workaround. */
export function happened(error) {
  const { Message: message, Workaround: workaround } = error;
  return workaround && message.endsWith(workaround) ? message.slice(0, -workaround.length).trimEnd() : message;
}

/** An error with what to do about it. */
export function errorBox(error, ...actions) {
  return h(
    "div",
    { class: "error" },
    h("p", { class: "error-what" }, h("span", { class: "error-code" }, error.ErrCode), " ", prose(happened(error))),
    error.Workaround ? h("div", { class: "error-how" }, h("h4", {}, "What to do"), h("div", {}, prose(error.Workaround))) : null,
    actions.length ? h("div", { class: "actions" }, actions) : null,
  );
}

export const tile = (name, value, detail = null, level = "") =>
  h(
    "div",
    { class: `tile ${level}` },
    h("dt", {}, name),
    h("dd", {}, h("span", { class: "tile-value" }, value), detail ? h("span", { class: "tile-detail" }, detail) : null),
  );

export const button = (text, data, { kind = "", label = null, disabled = false } = {}) =>
  h("button", { type: "button", class: kind, "aria-label": label, disabled, "data-act": JSON.stringify(data) }, text);

const PHASES = {
  waiting: ["warn", "Waiting for shards"],
  conflict: ["bad", "Different DDL"],
  exec: ["busy", "Being executed"],
  skip: ["busy", "Executed, others continue"],
  differs: ["bad", "Differs from the executed DDL"],
};

/** One DDL lock of a merged table. */
export function lockCard(lock, { named, mayAct }) {
  const [level, state] = PHASES[lock.phase] ?? ["idle", lock.phase];
  const decided = lock.decision ? `A user has decided: ${lock.decision}. ${lock.owner} carries it out when it reads the lock.` : null;
  const sides = Object.entries(lock.conflict);
  return h(
    "article",
    { class: `lock ${level}`, "data-key": `${lock.ID}#${lock.number}` },
    h("header", {}, h("h4", {}, tableOf(lock)), pill(level, state), h("span", { class: "muted" }, `for ${duration(lock.ageSeconds)}`)),
    sides.length
      ? sides.map(([source, ddls]) => h("div", { class: "side" }, h("h5", {}, source), ddls.map((sql) => h("pre", {}, sql))))
      : lock.DDLs.map((sql) => h("pre", {}, sql)),
    h(
      "dl",
      { class: "facts" },
      named ? fact("Task", taskLink(lock.task)) : null,
      fact("Owner", lock.owner),
      fact("Executed by", lock.synced.join(", ") || "no source"),
      fact("Waits for", lock.unsynced.join(", ") || "no source"),
    ),
    decided ? h("p", { class: "muted" }, decided) : null,
    mayAct && lock.phase !== "skip" && !lock.decision
      ? h("div", { class: "actions" }, button("Decide…", { what: "unlock", lock: lock.ID, number: lock.number }, { kind: level === "bad" ? "primary" : "" }))
      : null,
  );
}

export const tableOf = (lock) => lock.ID.slice(lock.task.length + 1).replaceAll("`", "");

export const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

/** The path of the log: the ends of the source's and the relay's log, and the checkpoint in the target. */
export function pipeline(one) {
  const relay = one.sourceStatus.relayStatus;
  const sync = one.subTaskStatus[0]?.sync;
  const [upstream, held, applied] = [relay?.masterBinlog || sync?.masterBinlog, relay?.relayBinlog, sync?.syncerBinlog];
  const remote = sync?.binlogType === "remote";
  return h(
    "ol",
    { class: "pipeline", "aria-label": "Locations in the log" },
    station("Source", one.sourceStatus.source, placeText(upstream), null, "good"),
    station(
      "Relay log",
      relay === null ? "no relay" : relay.stage,
      relay === null ? h("span", { class: "unknown" }, remote ? "pulled by the task" : "none has reported") : placeText(held),
      distance(place(held), place(upstream)),
      relay === null ? "idle" : levelOfStage(relay.stage),
    ),
    sync === undefined
      ? null
      : station("Target", "checkpoint", placeText(applied), distance(place(applied), place(upstream)), "good"),
  );
}

const station = (name, who, where, behind, level) =>
  h(
    "li",
    { class: level },
    h("span", { class: "station" }, name, h("span", { class: "muted" }, who)),
    where,
    h("span", { class: "behind" }, behind ?? " "),
  );
