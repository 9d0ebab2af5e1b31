// One topic: its messages, its partitions, its settings.

import { fill, fillOnce, h, table } from "./dom.js";
import { Messages } from "./messages.js";
import { bytes, many, number } from "./words.js";

const PARTITIONS = 1000;
const TABS = { messages: "Messages", partitions: "Partitions", settings: "Settings" };

export class TopicView {
  constructor({ root, known, rest, look }) {
    [this.name] = rest;
    this.title = this.name;
    this.known = known;
    this.topic = null;
    this.note = h("p.figures");
    this.said = h("p.said", { role: "alert" });
    this.tabs = h("nav.tabs", { "aria-label": "Of this topic" }, Object.entries(TABS).map(([tab, label]) =>
      h("a", { href: `#/topic/${encodeURIComponent(this.name)}/${tab}`, "data-tab": tab }, label)));
    this.place = h("div");
    fill(root, h("header.top", h("p.back", h("a", { href: "#/topics" }, "Topics")), h("h1.name", this.name), this.note), this.said, this.tabs, this.place);
    this.messages = new Messages(this.name, (tail) => look(tail ? `tail:${this.name}${tail.partition === "" ? "" : `:${tail.partition}`}` : `topic:${this.name}`));
    this.partitions = h("div.scroll");
    this.settings = h("div.scroll");
    this.asks = `topic:${this.name}`;
    this.stay(rest);
  }

  /** Another tab of the same topic. */
  stay([name, tab]) {
    if (name !== this.name) return false;
    this.tab = TABS[tab] ? tab : "messages";
    for (const link of this.tabs.children) {
      if (link.dataset.tab === this.tab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const places = { messages: this.messages.element, partitions: this.partitions, settings: this.settings };
    fill(this.place, places[this.tab]);
    if (this.tab !== "messages") this.messages.stop();
    return true;
  }

  changed() {}

  told(view) {
    if ("tail" in view) { this.messages.tailed(view); return; }
    if (view.error) { fill(this.said, view.error); return; }
    fill(this.said, view.trouble.join("; "));
    this.topic = view;
    const records = view.partitions.reduce((sum, one) => sum + Math.max(0, (one.end ?? 0) - (one.begin ?? 0)), 0);
    fill(this.note, `${many(view.partitions.length, "partition", "partitions")} · ${many(records, "offset", "offsets")} · ${bytes(view.bytes)} on all replicas`);
    this.messages.offer(view.partitions);
    fillOnce(this.partitions, JSON.stringify(view.partitions), () => partitionTable(view.partitions));
    fillOnce(this.settings, JSON.stringify(view.settings), () => settingTable(view.settings));
  }

  close() {}
}

function partitionTable(partitions) {
  return [table(["Partition", "Leader", "Epoch", "ISR", "Replicas", "#First offset", "#Next offset", "#Size"], partitions.slice(0, PARTITIONS).map((one) => [
    String(one.partition), one.leader < 0 ? h("strong.bad", "none") : String(one.leader), String(one.epoch),
    [one.isr.join(", "), one.isr.length < one.replicas.length - one.adding.length ? h("strong.warn", " ◌ not whole") : null], [one.replicas.join(", "), one.adding.length ? h("span.quiet", ` ${one.adding.join(", ")} being added`) : null],
    number(one.begin), number(one.end), bytes(one.bytes),
  ])), partitions.length > PARTITIONS ? h("p.note", `the first ${number(PARTITIONS)} of ${number(partitions.length)}`) : null];
}

function settingTable(settings) {
  const rows = (some) => some.map((one) => h("tr", h("td", h("code", one.name)),
    h("td", one.sensitive ? h("em", "not shown") : h("code.data", one.value === null ? "" : one.value)), h("td.quiet", one.source)));
  const own = settings.filter((one) => !one.default);
  return [
    h("table.settings", h("caption", own.length ? "Set for this topic, or for all brokers" : "Nothing is set for this topic"), h("tbody", rows(own))),
    h("table.settings", h("caption", "Defaults"), h("tbody", rows(settings.filter((one) => one.default)))),
  ];
}
