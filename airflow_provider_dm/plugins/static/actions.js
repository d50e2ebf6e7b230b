// The actions of a user: a dialog that describes the effect, then one POST, then its answer.

import { h, render } from "./dom.js";
import { act, read } from "./data.js";
import { bytes, plural } from "./format.js";
import { errorBox, happened, pill, tableOf } from "./parts.js";

const dialog = document.getElementById("dialog");

/** Open the dialog of a button. `page`: the data that the user sees; `done` is called when the server has answered. */
export async function begin(wanted, page, done) {
  const made = await DIALOGS[wanted.what](wanted, page);
  show(made, done);
}

const DIALOGS = {
  pause: (wanted) => ({
    title: `Pause ${nameOf(wanted)}?`,
    text: "The current epoch is finished first, which takes one to ten seconds. The run keeps its lease and its JVM, and the lag grows until you resume it.",
    button: "Pause",
    path: "pause",
    body: { task: wanted.task, source: wanted.source ?? null },
  }),
  resume: (wanted) => ({
    title: `Resume ${nameOf(wanted)}?`,
    text: "It continues where it stopped. If the cause of an error still exists, it stops at the same location again.",
    button: "Resume",
    path: "resume",
    body: { task: wanted.task, source: wanted.source ?? null },
  }),
  skip: (wanted, page) => ({
    title: `Skip the statement on ${wanted.source}?`,
    text: "The DDL statement counts as done and is not executed in the target. If the target needs the change, make it there first: later rows are written to the tables without it.",
    extra: statementOf(wanted, page),
    button: "Skip and resume",
    danger: true,
    path: "binlog",
    body: { ...statement(wanted, page), kind: "skip" },
  }),
  replace: (wanted, page) => ({
    title: `Replace the statement on ${wanted.source}?`,
    text: "These statements are executed in the target instead of the one in the log. Write DDL with the source's names, SCHEMA.TABLE.",
    extra: [
      statementOf(wanted, page),
      h("label", { class: "field" }, h("span", {}, "DDL to execute"), h("textarea", { name: "sql", rows: 4, required: true, spellcheck: "false", placeholder: "ALTER TABLE shop.orders ADD COLUMN note TEXT" })),
    ],
    button: "Replace and resume",
    danger: true,
    path: "binlog",
    body: { ...statement(wanted, page), kind: "replace" },
  }),
  unlock: (wanted, page) => {
    const lock = page.locks.find((one) => one.ID === wanted.lock && one.number === wanted.number);
    if (lock === undefined) return nothingToDo("The lock has already been resolved.");
    const run = lock.phase === "differs"; // the target has executed the owner's DDL, and another source has executed a different one
    const owners = lock.synced.map((source) => choice("owner", source, source === lock.owner, source, null));
    return {
      title: "Decide about the DDL lock",
      text: `It is DDL number ${lock.number} of ${tableOf(lock)}. Rows after the statement are applied once the lock is resolved.`,
      extra: [
        lock.DDLs.map((sql) => h("pre", {}, sql)),
        fieldset("What happens in the target", run ? null : choice("action", "exec", true, "Execute the owner's DDL", "and let the other sources continue"), choice("action", "skip", run, "Execute nothing", run ? "as the target has executed the DDL already; the DDL of another source is treated as the same" : "as you have made the change in the target yourself")),
        owners.length > 1 ? fieldset("Whose DDL counts", owners) : null,
        lock.unsynced.length
          ? h("label", { class: "choice" }, h("input", { type: "checkbox", name: "force", required: true }), h("span", {}, h("strong", {}, `Do not wait for ${lock.unsynced.join(", ")}`), h("span", { class: "muted" }, ": each continues only with the same DDL; a different DDL stops it with an error.")))
          : null,
      ],
      button: "Decide",
      danger: true,
      path: "unlock",
      body: { lock: lock.ID, number: lock.number },
    };
  },
  purge: async (wanted) => {
    const found = await read("purge", `?source=${encodeURIComponent(wanted.source)}`);
    const size = found.files.reduce((sum, one) => sum + one.bytes, 0);
    const rest = found.because ? h("p", { class: "muted" }, `${found.because}.`) : null;
    if (!found.files.length) return { ...nothingToDo("No file can be removed: tasks need all of them, or there is only the newest one."), extra: rest };
    return {
      title: `Purge the relay log of ${wanted.source}?`,
      text: `${plural(found.files.length, "file")}, ${bytes(size)}: no task needs them. A file that a task needs when you confirm is kept.`,
      extra: [h("ul", { class: "files" }, found.files.map((one) => h("li", {}, `${one.sub_dir}/${one.file}`, h("span", { class: "muted" }, bytes(one.bytes))))), rest],
      button: `Remove ${plural(found.files.length, "file")}`,
      danger: true,
      path: "purge",
      body: { source: wanted.source, ...found.stays },
    };
  },
};

const nameOf = (wanted) => (wanted.source ? `${wanted.source} of ${wanted.task}` : wanted.task);

const nothingToDo = (text) => ({ title: "Nothing to do", text, button: null });

const taskOf = (wanted, page) => page.tasks.find((one) => one.taskName === wanted.task);

const statement = (wanted, page) => ({ task: wanted.task, source: wanted.source, place: taskOf(wanted, page).pausedAt[wanted.source] });

function statementOf(wanted, page) {
  const one = taskOf(wanted, page).sourceStatus.find((found) => found.sourceStatus.source === wanted.source);
  const error = one.subTaskStatus[0].result?.errors[0];
  return [h("p", { class: "muted" }, `At ${statement(wanted, page).place}:`), error ? h("pre", {}, happened(error)) : null];
}

const fieldset = (legend, ...choices) => h("fieldset", {}, h("legend", {}, legend), choices);

const choice = (name, value, checked, text, more) =>
  h("label", { class: "choice" }, h("input", { type: "radio", name, value, checked }), h("span", {}, h("strong", {}, text), more ? h("span", { class: "muted" }, ` ${more}`) : null));

function show(made, done) {
  const outcome = h("div", { class: "outcome", role: "alert" });
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, made.title),
    h("p", {}, made.text),
    made.extra,
    outcome,
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", value: "cancel" }, made.button ? "Cancel" : "Close"),
      made.button ? h("button", { type: "submit", class: made.danger ? "danger" : "primary" }, made.button) : null,
    ),
  );
  form.querySelector("[value=cancel]").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const confirm = form.querySelector("[type=submit]");
    confirm.disabled = true;
    render(outcome, h("p", { class: "muted" }, "Waiting until it is done, up to 20 seconds…"));
    try {
      const { msg } = await act(made.path, { ...made.body, ...entered(form) });
      render(outcome, h("p", {}, pill("good", "Done"), " ", msg));
      confirm.remove();
      form.querySelector("[value=cancel]").textContent = "Close";
      form.querySelector("[value=cancel]").focus();
    } catch (refused) {
      render(outcome, refused.error ? errorBox(refused.error) : h("p", { class: "reason bad" }, refused.message));
      confirm.disabled = false;
    }
    done();
  });
  dialog.replaceChildren(form);
  dialog.showModal();
}

function entered(form) {
  const found = Object.fromEntries(new FormData(form));
  if (form.elements.force) found.force = form.elements.force.checked;
  return found;
}

/** Show why a dialog could not be opened. */
export function refuse(refused) {
  show({ title: "That is not possible", text: refused.error ? "" : refused.message, extra: refused.error ? errorBox(refused.error) : null, button: null }, () => {});
}
