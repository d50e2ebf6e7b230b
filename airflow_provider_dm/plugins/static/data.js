// The answers of the server, and a bounded history of them for the plots.

const LIVE_POINTS = 180;
const live = new Map();

/** Thrown if the server rejects a request. `status`: the HTTP status; `error`: the error in DM's JSON format, or null. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.error?.Message ?? body?.detail ?? `The server answered ${status}.`);
    this.status = status;
    this.error = body?.error ?? null;
  }
}

export async function read(path, parameters = "") {
  const response = await fetch(`api/${path}${parameters}`, { headers: { Accept: "application/json" } });
  return answer(response);
}

export async function act(path, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json", "X-DM-Page": "1" };
  return answer(await fetch(`api/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answer(response) {
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}

/** Add an answer to the history, and give each source the points for its plot: {t, lag, rate}. */
export function withPoints(page, now = Date.now() / 1000) {
  for (const task of page.tasks) {
    for (const one of task.sourceStatus) {
      const subtask = one.subTaskStatus[0];
      const source = one.sourceStatus.source;
      const key = `${task.taskName}\n${source}`;
      const seen = live.get(key) ?? [];
      const rows = rowsOf(subtask, source);
      const before = seen.at(-1);
      seen.push({ t: now, lag: lagOf(subtask), rate: rateOf(subtask, rows, before, now), rows });
      if (seen.length > LIVE_POINTS) seen.shift();
      live.set(key, seen);
      const past = (task.history[source] ?? []).map(([t, lag, rate]) => ({ t, lag, rate }));
      one.points = [...past.filter((point) => point.t + 15 <= seen[0].t), ...seen];
      one.rate = seen.at(-1).rate;
    }
  }
  return page;
}

export function copyOf(subtask, source) {
  const progress = subtask.load?.[source] ?? subtask.dump?.[source];
  return progress?.unit === "load" ? progress : null;
}

const works = (subtask) => subtask.stage === "Running";

function lagOf(subtask) {
  const lag = subtask.sync?.secondsBehindMaster;
  return lag === undefined || lag === null ? null : Number(lag);
}

function rowsOf(subtask, source) {
  return copyOf(subtask, source)?.rows ?? Number(subtask.sync?.totalRows ?? 0);
}

function rateOf(subtask, rows, before, now) {
  if (!works(subtask)) return 0;
  if (subtask.sync) return Number(subtask.sync.recentRps);
  if (before === undefined || rows < before.rows) return 0;
  const fresh = (rows - before.rows) / Math.max(0.5, now - before.t);
  return before.rate ? 0.7 * before.rate + 0.3 * fresh : fresh;
}
