// One task: each of its sources with its history, its location in the log and its errors; its locks and its runs.

import { h } from "./dom.js";
import { copyOf } from "./data.js";
import { bytes, count, duration, moment, plural } from "./format.js";
import { plot, rememberTimes } from "./plot.js";
import { airflowLink, button, errorBox, fact, icon, lagOf, lagText, levelOfStage, lockCard, phase, pill, pipeline, prose, tile } from "./parts.js";
import { runText } from "./overview.js";

export function detail(page, context) {
  const [task] = page.tasks;
  return [
    h(
      "section",
      { class: `banner ${task.verdict.level}`, "data-key": "banner" },
      icon(task.verdict.level),
      h("div", {}, h("h1", {}, task.taskName), h("p", {}, summary(task))),
      context.mayAct ? h("div", { class: "actions" }, taskActions(task)) : null,
    ),
    page.locks.length
      ? h(
          "section",
          { class: "card", "data-key": "locks" },
          h("header", {}, h("h2", {}, "DDL locks")),
          page.locks.map((lock) => lockCard(lock, { named: false, mayAct: context.mayAct })),
        )
      : null,
    task.sourceStatus.map((one) => sourceCard(task, one, context)),
    runs(task),
  ];
}

function summary(task) {
  const states = Object.values(task.verdicts).map(({ state }) => state);
  const lines = [...new Set(states)].map((state) => {
    const amount = states.filter((one) => one === state).length;
    return states.length === 1 ? state : `${plural(amount, "source")}: ${state.toLowerCase()}`;
  });
  return [...lines, task.run ? runText(task.run) : "no run yet"].join(" · ");
}

function taskActions(task) {
  const stages = task.sourceStatus.map((one) => one.subTaskStatus[0].stage);
  return [
    stages.includes("Running") ? button("Pause…", { what: "pause", task: task.taskName }) : null,
    stages.includes("Paused") ? button("Resume…", { what: "resume", task: task.taskName }, { kind: "primary" }) : null,
  ];
}

function sourceCard(task, one, context) {
  const subtask = one.subTaskStatus[0];
  const source = one.sourceStatus.source;
  const verdict = task.verdicts[source];
  const error = subtask.result?.errors[0];
  return h(
    "section",
    { class: "card source", "data-key": `source ${source}` },
    h(
      "header",
      {},
      h("h2", {}, source),
      pill(verdict.level, verdict.state),
      h("span", { class: "muted" }, phase(subtask, source)),
      context.mayAct ? h("div", { class: "actions" }, sourceActions(task, one)) : null,
    ),
    error ? errorBox(error, ...(context.mayAct ? errorActions(task, source) : [])) : verdict.reason ? h("p", { class: `reason ${verdict.level}` }, prose(verdict.reason)) : null,
    subtask.sync ? syncTiles(subtask, one) : copyTiles(copyOf(subtask, source), one),
    plots(task.taskName, source, one, subtask),
    pipeline(one),
    relayError(one.sourceStatus.relayStatus),
    held(subtask.sync),
    safeMode(subtask.sync?.safeMode),
  );
}

function sourceActions(task, one) {
  const subtask = one.subTaskStatus[0];
  const source = one.sourceStatus.source;
  const several = task.sourceStatus.length > 1 && subtask.unit !== "Load";
  return [
    several && subtask.stage === "Running" ? button("Pause…", { what: "pause", task: task.taskName, source }, { label: `Pause ${source}…` }) : null,
    several && subtask.stage === "Paused" ? button("Resume…", { what: "resume", task: task.taskName, source }, { label: `Resume ${source}…` }) : null,
    one.sourceStatus.relayStatus ? button("Purge relay log…", { what: "purge", source }) : null,
  ];
}

function errorActions(task, source) {
  if (!task.pausedAt[source]) return [];
  return [
    button("Skip the statement…", { what: "skip", task: task.taskName, source }),
    button("Replace it…", { what: "replace", task: task.taskName, source }),
  ];
}

function syncTiles(subtask, one) {
  const sync = subtask.sync;
  const lag = lagOf(subtask);
  const late = lag !== null && lag > 30 && subtask.stage !== "Stopped";
  const left = sync.remainingSeconds ? `${duration(sync.remainingSeconds)} left at this pace` : null;
  return h(
    "dl",
    { class: "tiles" },
    tile("Lag", lagText(subtask), lag === null ? "not known yet" : late ? left : subtask.stage === "Stopped" ? "since the last run" : "up to 30 s is in sync", late ? "warn" : ""),
    tile("Rows/s", count(one.rate ?? 0), "of the last 30 s"),
    tile("Rows", count(sync.totalRows), "since the run began"),
    tile("Transactions", count(sync.totalTransactions), "since the run began"),
    sync.contested_rows ? tile("Waiting rows", count(sync.contested_rows), "for their keys in merged tables", "warn") : null,
    sync.safeMode?.on ? tile("Safe mode", "on", `until ${ends(sync.safeMode)}`, "warn") : tile("Safe mode", "off"),
  );
}

function copyTiles(copy, one) {
  if (copy === null) return null;
  const share = copy.chunks ? copy.chunks_done / copy.chunks : 0;
  return [
    h("progress", { class: "copy", max: 1, value: share.toFixed(4), "aria-label": "Chunks copied" }),
    h(
      "dl",
      { class: "tiles" },
      tile("Copied", `${Math.floor(share * 100)} %`, `${count(copy.chunks_done)} of ${plural(copy.chunks, "chunk")}`),
      tile("Rows", count(copy.rows), "in the target"),
      tile("Rows/s", count(one.rate ?? 0), "now"),
      copy.contested_rows ? tile("Waiting rows", count(copy.contested_rows), "for their keys in merged tables", "warn") : null,
    ),
  ];
}

function plots(task, source, one, subtask) {
  const points = one.points;
  const wanted = [
    subtask.sync ? { value: "lag", title: "Lag", show: duration } : null,
    { value: "rate", title: "Rows per second", show: (value) => count(value) },
  ].filter(Boolean);
  return h(
    "div",
    { class: "plots" },
    wanted.map(({ value, title, show }) => {
      const key = `${task}/${source}/${value}`;
      rememberTimes(key, points);
      return plot({ key, title, points, value, show });
    }),
  );
}

function relayError(relay) {
  const error = relay?.result?.errors[0];
  return error ? h("div", {}, h("h3", {}, "Relay log"), errorBox(error)) : null;
}

function held(sync) {
  if (!sync?.unresolvedGroups.length) return null;
  return h(
    "div",
    { class: "held" },
    h("h3", {}, "Rows held back"),
    sync.heldBackSeconds === null ? null : h("p", { class: "muted" }, `For ${duration(sync.heldBackSeconds)}; ${bytes(sync.heldBackBytes ?? 0)} of the log are kept for them.`),
    sync.unresolvedGroups.map((group) =>
      h(
        "article",
        { class: "lock warn", "data-key": group.target },
        h("header", {}, h("h4", {}, group.target.replaceAll("`", "")), h("span", { class: "muted" }, group.waits ? `waits ${group.waits}` : "is applied now")),
        group.DDLs.map((sql) => h("pre", {}, sql)),
        h("dl", { class: "facts" }, fact("Executed by", shards(group.synced)), fact("Not executed by", shards(group.unsynced))),
      ),
    ),
  );
}

const shards = (names) => names.map((name) => name.replaceAll("`", "")).join(", ") || "none";

function safeMode(mode) {
  if (!mode || (!mode.on && !Object.keys(mode.collisions ?? {}).length)) return null;
  const tables = Object.entries(mode.collisions ?? {});
  return h(
    "div",
    { class: "held" },
    h("h3", {}, "Safe mode"),
    mode.on ? h("p", {}, `It is on (${mode.why}), until ${ends(mode)}.`) : null,
    tables.length
      ? h("p", {}, `Rows that collided and were overwritten: ${tables.map(([table, { missing = 0, present = 0 }]) => `${table} ${count(missing + present)}`).join(", ")}.`)
      : null,
  );
}

/** Where safe mode ends; a log time as a clock shows it. */
const ends = (mode) =>
  mode.until.replace(/(\d{9,}) \(seconds since 1970\)/, (_, seconds) => moment(new Date(Number(seconds) * 1000)));

const RUN_LEVEL = { Running: "busy", Finished: "good", Stopped: "idle", Paused: "bad" };

function runs(task) {
  const found = task.runs ?? [];
  if (!found.length) return null;
  return h(
    "section",
    { class: "card", "data-key": "runs" },
    h("header", {}, h("h2", {}, "Runs"), found.length >= 20 ? h("span", { class: "muted" }, `the newest ${found.length}`) : null),
    h(
      "table",
      { class: "rows runs" },
      h("caption", { class: "unseen" }, "Runs of the task, the newest first"),
      h("thead", {}, h("tr", {}, ["App", "Stage", "Began", "Duration", "Started by", "Host"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, found.map(runRow)),
    ),
  );
}

function runRow(run) {
  const began = new Date(run.startedAt);
  const end = run.finishedAt ? new Date(run.finishedAt) : new Date();
  const lost = run.stage === "Running" && !run.lives;
  const state = lost ? "Lost" : run.error ? run.error.ErrCode : run.stage;
  const cell = (name, ...content) => h("td", { "data-name": name }, content);
  return h(
    "tr",
    { "data-key": run.id },
    h("th", { scope: "row" }, run.app.replaceAll("_", " ")),
    cell("Stage", pill(lost ? "bad" : RUN_LEVEL[run.stage], state)),
    cell("Began", h("time", { datetime: run.startedAt }, moment(began))),
    cell("Took", h("span", { class: "number" }, lost ? "–" : duration((end - began) / 1000))),
    cell("Started by", run.airflow ? airflowLink(run.airflow.path, `${run.airflow.dag_id} / ${run.airflow.task_id}`) : run.startedBy.split(":")[0]),
    cell("Host", run.host),
  );
}
