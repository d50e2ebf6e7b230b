// Formats numbers, times and locations.

const number = new Intl.NumberFormat("en-US");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export const count = (value) => number.format(Math.round(Number(value)));

export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const [above, name, below, smaller] = units.find(([size]) => whole >= size);
  const rest = Math.floor((whole % above) / below);
  return `${Math.floor(whole / above)} ${name}${rest ? ` ${rest} ${smaller}` : ""}`;
}

export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = Number(size);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export const time = (date) => clock.format(date);

/** A moment: the time of today, else with its day. */
export function moment(date) {
  const today = new Date().toDateString() === date.toDateString();
  return today ? time(date) : `${day.format(date)}, ${time(date)}`;
}

export const ago = (iso, now = Date.now()) => `${duration((now - new Date(iso).getTime()) / 1000)} ago`;

/** DM's "(mysql-bin.000003, 4711)" as {file, position}; null where nothing is known. */
export function place(text) {
  const found = /^\((.+), (\d+)\)$/.exec(text ?? "");
  return found === null ? null : { file: found[1], position: Number(found[2]) };
}

/** The distance of one location behind another, as text; null if it is unknown. */
export function distance(behind, ahead) {
  if (behind === null || ahead === null) return null;
  if (behind.file === ahead.file) {
    const size = ahead.position - behind.position;
    return size <= 0 ? "up to date" : `${bytes(size)} behind`;
  }
  const files = fileNumber(ahead.file) - fileNumber(behind.file);
  return files > 0 ? `${files} ${files === 1 ? "file" : "files"} behind` : null;
}

const fileNumber = (file) => Number(/(\d+)$/.exec(file)?.[1] ?? 0);

export const plural = (amount, one, many = `${one}s`) => `${count(amount)} ${amount === 1 ? one : many}`;
