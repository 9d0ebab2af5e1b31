// Elements and text. Whatever comes from a cluster becomes text nodes here, and nothing else: no HTML is ever parsed.

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffc]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;
const ATTRIBUTES = /^(?:href|title|type|name|value|for|id|placeholder|role|tabindex|inputmode|min|step|colspan|disabled|checked|selected|open|download|aria-[a-z]+|data-[a-z]+)$/;

/** Text with a visible mark in place of each control character, direction mark and invisible character. */
export function text(value) {
  const whole = String(value);
  const found = document.createDocumentFragment();
  let from = 0;
  for (const match of whole.matchAll(ODD)) {
    if (match.index > from) found.append(whole.slice(from, match.index));
    const code = match[0].codePointAt(0);
    const mark = document.createElement("span");
    mark.className = "odd";
    mark.title = "U+" + code.toString(16).toUpperCase().padStart(4, "0");
    mark.textContent = code < 0x20 ? String.fromCodePoint(0x2400 + code) : code === 0x7f ? "␡" : mark.title;
    found.append(mark);
    from = match.index + match[0].length;
  }
  found.append(whole.slice(from));
  return found;
}

/** An element: `h("p.note", {onclick, title}, "text", child, …)`. Children that are null or false are left out. */
export function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  const options = rest.length && isOptions(rest[0]) ? rest.shift() : {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (ATTRIBUTES.test(name)) {
      if (name === "href" && !String(value).startsWith("#")) throw new Error("links stay on this page");
      element.setAttribute(name, value === true ? "" : value);
    } else throw new Error(`no attribute ${name}`);
  }
  put(element, ...rest);
  return element;
}

function isOptions(value) {
  return value !== null && typeof value === "object" && !(value instanceof Node) && !Array.isArray(value);
}

function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : text(child));
  }
}

/** A table: labels of columns (those that begin with `#` are of figures), and rows of cells. A narrow page has no room
 * for columns: there each cell stands under its label. */
export function table(columns, rows) {
  const kinds = columns.map((label) => (label.startsWith("#") ? ["figure", label.slice(1)] : ["cell", label]));
  return h("table", h("thead", h("tr", kinds.map(([kind, label]) => h(`th.${kind}`, label)))),
    h("tbody", rows.map((row) => h("tr", row.map((cell, at) => h(`td.${kinds[at][0]}`, { "data-label": kinds[at][1] }, cell))))));
}

/** Replace what is in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
  return element;
}

/** Replace what is in an element only when `key` is another than the last time: focus and selection stay. */
export function fillOnce(element, key, make) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  fill(element, make());
}

/**
 * A list of rows of one height, of which only those in sight exist: `make(item)` makes an element, `renew(element, item)`
 * brings it up to date, `key(item)` says which is which. `seen(items)` is told what is in sight.
 */
export class Rows {
  constructor({ height, key, make, renew, seen }) {
    Object.assign(this, { height, key, make, renew, seen });
    this.items = [];
    this.known = new Map();
    this.element = h("div.rows", { role: "list", "data-list": true });
    this.later = 0;
    this.look = () => {
      if (!this.later) this.later = requestAnimationFrame(() => { this.later = 0; this.draw(); });
    };
    addEventListener("scroll", this.look, { passive: true });
    addEventListener("resize", this.look, { passive: true });
  }

  show(items) {
    this.items = items;
    this.element.style.height = `${items.length * this.height}px`;
    this.draw();
  }

  draw() {
    if (!this.element.isConnected) return;
    const top = this.element.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.height) - 8);
    const last = Math.min(this.items.length, Math.ceil((innerHeight - top) / this.height) + 8);
    const kept = new Map();
    for (let at = first; at < last; at++) {
      const item = this.items[at];
      const key = this.key(item);
      let row = this.known.get(key);
      if (!row) {
        row = this.make(item);
        row.setAttribute("role", "listitem");
        this.element.append(row);
      }
      row.style.top = `${at * this.height}px`;
      row.dataset.at = at;
      this.renew(row, item);
      kept.set(key, row);
    }
    const focused = document.activeElement;
    for (const [key, row] of this.known) {
      if (kept.has(key)) continue;
      if (row.contains(focused)) kept.set(key, row);
      else row.remove();
    }
    this.known = kept;
    if (this.seen) this.seen(this.items.slice(Math.max(0, first), last));
  }

  close() {
    removeEventListener("scroll", this.look);
    removeEventListener("resize", this.look);
  }
}
