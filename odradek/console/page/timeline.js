// What happened, newest first, each with its reason.

import { fill, h } from "./dom.js";
import { clock, many, moment, number } from "./words.js";

const GLYPHS = { election: "♛", isr: "◎", broker: "▣", controller: "★", session: "⌁", topic: "+", failure: "!", truncation: "✂", action: "☞" };
const NAMES = { election: "elections", isr: "ISR", broker: "brokers", controller: "controller", session: "sessions", topic: "topics", failure: "failures", truncation: "truncations", action: "this page" };
const SHOWN_MAX = 300;

/** Of several journals each is read in its turn: what is heard later may have been before. */
export const byTime = (one, other) => one.at_ms - other.at_ms || one.number - other.number;

/** A happening as a list item. */
export function entry(one) {
  return h(`li.happening.${one.kind}`, { "data-number": one.number },
    h("i.glyph", { title: NAMES[one.kind] || one.kind, "aria-hidden": "true" }, GLYPHS[one.kind] || "·"),
    h("div.body",
      h("p.what", one.title),
      one.reason ? h("p.why", one.reason) : null,
      one.parts.length ? h("details", h("summary", many(one.count, "partition", "partitions")), h("ul", one.parts.map((part) => h("li", part)),
        one.count > one.parts.length ? h("li", `and ${number(one.count - one.parts.length)} more`) : null)) : null),
    h("p.when", h("span", { title: moment(one.at_ms) }, clock(one.at_ms)), h("span.source", source(one))));
}

function source(one) {
  if (one.source === "journal") return `journal of ${one.broker}`;
  return one.source === "page" ? "this page" : "observed";
}

export class TimelineView {
  constructor({ root, known }) {
    this.title = "Time line";
    this.known = known;
    this.hidden = new Set();
    this.list = h("ol.happenings.long", { "data-list": true });
    this.note = h("p.figures");
    this.kinds = h("p.chips");
    for (const [kind, name] of Object.entries(NAMES)) {
      const chip = h("button.chip", { type: "button", "aria-pressed": "true" }, h("i", { "aria-hidden": "true" }, GLYPHS[kind]), name);
      chip.addEventListener("click", () => {
        if (!this.hidden.delete(kind)) this.hidden.add(kind);
        chip.setAttribute("aria-pressed", String(!this.hidden.has(kind)));
        this.first = undefined;
        this.changed();
      });
      this.kinds.append(chip);
    }
    fill(root, h("header.top", h("h1", "Time line"), this.note), this.kinds, this.list);
  }

  changed() {
    const state = this.known.state;
    if (state) {
      const read = state.journals;
      fill(this.note, read.length
        ? `From the journals of ${many(read.length, "broker", "brokers")} (${read.join(", ")}); what they do not tell is observed.`
        : "No broker has a journal to read (metrics.port): this is what the metadata shows, without the controller's reasons.");
    }
    const wanted = this.known.happenings.filter((one) => !this.hidden.has(one.kind)).slice(-SHOWN_MAX);
    if (!wanted.length) {
      this.first = undefined;
      fill(this.list, h("li.none", "Nothing yet. Kill a broker, and see."));
      return;
    }
    if (this.first === undefined) fill(this.list);
    for (const one of wanted) {
      if (this.first !== undefined && one.number <= this.first) continue;
      const item = entry(one);
      item.at = one.at_ms;
      let next = this.list.firstElementChild;
      while (next && next.at > one.at_ms) next = next.nextElementSibling;
      this.list.insertBefore(item, next);
    }
    this.first = wanted[wanted.length - 1].number;
    while (this.list.children.length > SHOWN_MAX) this.list.lastChild.remove();
  }

  told() {}

  close() {}
}
