// Figures, times and sizes as people read them.

const whole = new Intl.NumberFormat("en");

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export function bytes(size) {
  if (size === null || size === undefined) return "–";
  if (size < 1000) return `${size} B`;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    size /= 1000;
    if (size < 999.5) return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${unit}`;
  }
  return `${Math.round(size / 1000)} PB`;
}

export const many = (count, one, more) => `${number(count)} ${count === 1 ? one : more}`;

const two = (value, width = 2) => String(value).padStart(width, "0");

/** The time of day, with milliseconds. */
export function clock(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
}

/** Day and time of day. */
export function moment(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

/** How long something took or is behind. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, (now - ms) / 1000);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}
