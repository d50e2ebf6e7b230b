// The overview: whether everything is in sync, and if not, which source needs which action.

import { h } from "./dom.js";
import { sparkline } from "./plot.js";
import { count, duration, plural } from "./format.js";
import { icon, lagOf, lagText, levelOfStage, lockCard, phase, pill, pipeline, placeText, prose, taskLink } from "./parts.js";

const sourcesOf = (page) =>
  page.tasks.flatMap((task) =>
    task.sourceStatus.map((one) => ({
      task,
      one,
      source: one.sourceStatus.source,
      subtask: one.subTaskStatus[0],
      verdict: task.verdicts[one.sourceStatus.source],
    })),
  );

export function overview(page, context) {
  const sources = sourcesOf(page);
  const trouble = sources.filter(({ verdict }) => verdict.level === "bad" || verdict.level === "warn");
  const locks = page.locks.filter((lock) => lock.phase !== "skip");
  return [
    banner(page, sources),
    trouble.length ? h("section", { class: "attention", "aria-label": "What needs attention" }, trouble.map(attention)) : null,
    page.tasks.map((task) => taskCard(task, sources.filter((one) => one.task === task))),
    locks.length
      ? h(
          "section",
          { class: "card", "data-key": "locks" },
          h("header", {}, h("h2", {}, "DDL locks"), h("span", { class: "muted" }, "DDL of merged tables that not all shards have executed")),
          locks.map((lock) => lockCard(lock, { named: true, mayAct: context.mayAct })),
        )
      : null,
    page.relays.length ? relays(page.relays) : null,
    page.tasks.length || page.relays.length ? null : empty(context),
  ];
}

function headline(level, sources) {
  const amount = (wanted) => sources.filter(({ verdict }) => verdict.level === wanted).length;
  switch (level) {
    case "bad":
      return amount("bad") === 1 ? "One source needs your action" : `${plural(amount("bad"), "source")} need your action`;
    case "warn":
      return amount("warn") === 1 ? "One source is late or waits" : `${plural(amount("warn"), "source")} are late or wait`;
    case "busy":
      return "In progress";
    case "good":
      return "Everything is in sync";
    default:
      return "Nothing is running";
  }
}

function banner(page, sources) {
  if (!page.tasks.length) return null;
  const level = page.verdict.level;
  const lags = sources.map(({ subtask }) => lagOf(subtask)).filter((lag) => lag !== null);
  const rate = sources.reduce((sum, { one }) => sum + (one.rate ?? 0), 0);
  const facts = [
    plural(page.tasks.length, "task"),
    plural(sources.length, "source"),
    lags.length ? `lag at most ${duration(Math.max(...lags))}` : null,
    `${count(rate)} rows/s`,
  ].filter(Boolean);
  return h(
    "section",
    { class: `banner ${level}`, "data-key": "banner" },
    icon(level),
    h("div", {}, h("h1", {}, headline(level, sources)), h("p", {}, facts.join(" · "))),
  );
}

const attention = ({ task, source, one, verdict }) => {
  const error = one.subTaskStatus[0].result?.errors[0];
  return h(
    "article",
    { class: `note ${verdict.level}`, "data-key": `${task.taskName}/${source}` },
    h("h2", {}, taskLink(task.taskName), h("span", { class: "muted" }, source), pill(verdict.level, verdict.state)),
    h("p", {}, prose(verdict.reason)),
    error?.Workaround ? h("div", { class: "how" }, h("h3", {}, "What to do"), h("div", {}, prose(error.Workaround))) : null,
  );
};

const COLUMNS = ["Source", "State", "Phase", "Lag", "Rows/s", "Checkpoint", "Relay log"];

const taskCard = (task, sources) =>
  h(
    "section",
    { class: "card", "data-key": `task ${task.taskName}` },
    h(
      "header",
      {},
      h("h2", {}, taskLink(task.taskName)),
      task.run ? h("span", { class: "muted" }, runText(task.run)) : null,
    ),
    h(
      "table",
      { class: "rows" },
      h("caption", { class: "unseen" }, `Sources of ${task.taskName}`),
      h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, sources.map(sourceRow)),
    ),
  );

export function runText(run) {
  const app = { incremental_sync: "sync", full_migration: "copy", verify: "verification" }[run.app] ?? run.app;
  const since = duration((Date.now() - new Date(run.finishedAt ?? run.startedAt).getTime()) / 1000);
  if (run.lives) return `${app} for ${since} on ${run.host}`;
  return run.finishedAt ? `last ${app} ended ${since} ago` : `last ${app}: no heartbeat for ${duration(run.heartbeatAgeSeconds)}`;
}

const cell = (name, ...content) => h("td", { "data-name": name }, content);

function sourceRow({ one, source, subtask, verdict }) {
  const relay = one.sourceStatus.relayStatus;
  return h(
    "tr",
    { "data-key": source },
    h("th", { scope: "row" }, source),
    cell("State", pill(verdict.level, verdict.state)),
    cell("Phase", phase(subtask, source)),
    cell("Lag", h("span", { class: "with-spark" }, h("span", { class: "number" }, lagText(subtask)), sparkline(one.points.slice(-60), "lag"))),
    cell("Rows/s", h("span", { class: "number" }, count(one.rate ?? 0))),
    cell("Checkpoint", placeText(subtask.sync?.syncerBinlog)),
    cell("Relay log", relay === null ? h("span", { class: "unknown" }, "none") : pill(levelOfStage(relay.stage), relay.relayCatchUpMaster ? "Caught up" : relay.stage)),
  );
}

const relays = (found) =>
  h(
    "section",
    { class: "card", "data-key": "relays" },
    h("header", {}, h("h2", {}, "Relay logs without a task")),
    found.map((one) => pipeline(one)),
  );

const empty = (context) =>
  context.filtered
    ? h(
        "section",
        { class: "empty" },
        h("h1", {}, "No DM task here"),
        h("p", {}, "No task or relay has reported a status here yet, or you may not read its DAG. A precheck reports no status: its result is in its task's log."),
        h("p", {}, h("a", { href: "./" }, "Show all tasks")),
      )
    : h(
        "section",
        { class: "empty" },
        h("h1", {}, "No task yet"),
        h("p", {}, "A task appears here as soon as a ", h("code", {}, "DmFullMigrationOperator"), " or ", h("code", {}, "DmIncrementalSyncOperator"), " runs, or ", h("code", {}, "dmctl start-task"), " with the same metadata DB."),
        h("p", { class: "muted" }, "The metadata DB is the connection that [dm] metadata_conn_id names."),
      );
