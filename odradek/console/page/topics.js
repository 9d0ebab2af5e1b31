// All topics: how many partitions, whether they are whole, what they take.

import { fill, fillOnce, h, Rows } from "./dom.js";
import { health, replication } from "./map.js";
import { bytes, many } from "./words.js";

const ROW = 52;

export class TopicsView {
  constructor({ root, known }) {
    this.title = "Topics";
    this.asks = "topics";
    this.known = known;
    this.sizes = {};
    this.filter = h("input", { type: "search", placeholder: "Filter topics", "aria-label": "Filter topics" });
    this.filter.addEventListener("input", () => this.changed());
    this.internal = h("input", { type: "checkbox" });
    this.internal.addEventListener("change", () => this.changed());
    this.note = h("p.figures");
    this.rows = new Rows({
      height: ROW,
      key: (topic) => topic.name,
      make: (topic) => h("div.row.card", h("a.line", { href: `#/topic/${encodeURIComponent(topic.name)}` }, h("span.name", topic.name), h("span.facts"), h("span.size"))),
      renew: (row, topic) => this.renew(row.firstChild, topic),
    });
    fill(root, h("header.top", h("h1", "Topics"), this.note),
      h("div.tools", this.filter, h("label.check", this.internal, "with Kafka's own")), this.rows.element);
  }

  changed() {
    const state = this.known.state;
    if (!state) return;
    this.brokers = new Map(state.brokers.map((broker) => [broker.id, broker]));
    const wanted = this.filter.value.toLowerCase();
    const topics = state.topics.filter((topic) => (this.internal.checked || !topic.internal) && topic.name.toLowerCase().includes(wanted));
    const total = topics.reduce((sum, topic) => sum + (this.sizes[topic.name] || 0), 0);
    fill(this.note, `${many(topics.length, "topic", "topics")} · ${bytes(total)} on all replicas`);
    this.rows.show(topics);
  }

  renew(line, topic) {
    const facts = `${health(topic, this.brokers)} · ${many(replication(topic.partitions[0]), "replica", "replicas")}`;
    fillOnce(line.children[1], facts, () => facts);
    const size = bytes(this.sizes[topic.name]);
    fillOnce(line.children[2], size, () => size);
  }

  told(view) {
    if (view.sizes) this.sizes = view.sizes;
    this.changed();
  }

  close() { this.rows.close(); }
}
