// All groups. How far one is behind is asked when its line comes into sight.

import { fill, fillOnce, h, Rows } from "./dom.js";
import { ask } from "./stream.js";
import { many, number } from "./words.js";

const ROW = 52;
const FRESH_MS = 4000;
const AT_ONCE = 40;

export class GroupsView {
  constructor({ root, known }) {
    this.title = "Groups";
    this.asks = "groups";
    this.known = known;
    this.groups = null;
    this.lags = new Map();
    this.inSight = [];
    this.filter = h("input", { type: "search", placeholder: "Filter groups", "aria-label": "Filter groups" });
    this.filter.addEventListener("input", () => this.changed());
    this.note = h("p.figures", "Asking the coordinators …");
    this.said = h("p.said", { role: "alert" });
    this.rows = new Rows({
      height: ROW,
      key: (group) => group[0],
      make: (group) => h("div.row.card", h("a.line", { href: `#/group/${encodeURIComponent(group[0])}` }, h("span.name", group[0]), h("span.facts"), h("span.size"))),
      renew: (row, group) => this.renew(row.firstChild, group),
      seen: (groups) => { this.inSight = groups.map((group) => group[0]); },
    });
    fill(root, h("header.top", h("h1", "Groups"), this.note), this.said, h("div.tools", this.filter), this.rows.element);
    this.timer = setInterval(() => this.askLags(), 400);
  }

  changed() {
    if (!this.groups) return;
    const wanted = this.filter.value.toLowerCase();
    const groups = this.groups.filter(([id]) => id.toLowerCase().includes(wanted));
    const states = new Map();
    for (const [, state] of groups) states.set(state, (states.get(state) || 0) + 1);
    const said = [...states].map(([state, count]) => `${number(count)} ${state || "of unknown state"}`);
    fill(this.note, [many(groups.length, "group", "groups"), ...said].join(" · "));
    this.rows.show(groups);
  }

  renew(line, [id, state]) {
    const known = this.lags.get(id);
    const value = known?.value;
    const facts = !value ? state : value.error ? value.error
      : [value.state, value.members === null ? null : many(value.members, "member", "members"), many(value.partitions, "partition", "partitions")].filter(Boolean).join(" · ");
    fillOnce(line.children[1], facts, () => facts);
    const lag = !value || value.error ? "–" : value.lag ? `${number(value.lag)} behind` : "up to date";
    fillOnce(line.children[2], lag, () => lag);
  }

  async askLags() {
    if (this.asking || document.hidden) return;
    const old = Date.now() - FRESH_MS;
    const wanted = this.inSight.filter((id) => (this.lags.get(id)?.at || 0) < old).slice(0, AT_ONCE);
    if (!wanted.length) return;
    this.asking = true;
    try {
      const found = await ask("/api/lags", wanted.map((id) => ["group", id]));
      for (const [id, value] of Object.entries(found)) this.lags.set(id, { at: Date.now(), value });
      fill(this.said);
    } catch (error) {
      fill(this.said, error.message);
      for (const id of wanted) this.lags.set(id, { at: Date.now(), value: this.lags.get(id)?.value });
    }
    this.asking = false;
    this.rows.draw();
  }

  told(view) {
    if (view.error) { fill(this.said, view.error); return; }
    fill(this.said);
    this.groups = view;
    this.changed();
  }

  close() {
    clearInterval(this.timer);
    this.rows.close();
  }
}
