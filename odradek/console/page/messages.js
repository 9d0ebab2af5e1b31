// The records of a topic: from its end or beginning, an offset or a time, or as they come in.

import { fill, h } from "./dom.js";
import { ask } from "./stream.js";
import { bytes, many, moment, number } from "./words.js";

const COUNT = 50;
const TAIL_MAX = 300;
const FORMS = { auto: "as it is", text: "text", json: "JSON", hex: "hex" };

export class Messages {
  constructor(topic, tail) {
    this.topic = topic;
    this.tail = tail;
    this.live = false;
    this.missed = 0;
    this.partition = h("select", { "aria-label": "Partition" }, h("option", { value: "" }, "all partitions"));
    this.from = h("select", { "aria-label": "From" }, h("option", { value: "latest" }, "newest"), h("option", { value: "earliest" }, "oldest"),
      h("option", { value: "offset" }, "from offset"), h("option", { value: "time" }, "from time"));
    this.offset = h("input", { type: "number", min: "0", step: "1", value: "0", "aria-label": "Offset" });
    this.time = h("input", { type: "datetime-local", step: "1", "aria-label": "Time" });
    this.form = h("select", { "aria-label": "Shown as" }, Object.entries(FORMS).map(([value, label]) => h("option", { value }, label)));
    this.button = h("button.primary", { type: "submit" }, "Read");
    this.follow = h("button", { type: "button", "aria-pressed": "false" }, "Live");
    this.note = h("p.note", { role: "status" });
    this.list = h("ol.records", { "data-list": true });
    const form = h("form.tools", this.partition, this.from, this.offset, this.time, this.form, this.button, this.follow);
    form.addEventListener("submit", (event) => { event.preventDefault(); this.stop(); this.read(); });
    this.from.addEventListener("change", () => this.choose());
    this.form.addEventListener("change", () => { if (!this.live) this.read(); });
    this.partition.addEventListener("change", () => { if (this.live) this.begin(); });
    this.follow.addEventListener("click", () => (this.live ? this.stop() : this.begin()));
    this.element = h("section", form, this.note, this.list);
    this.choose();
    this.read();
  }

  choose() {
    this.offset.hidden = this.from.value !== "offset";
    this.time.hidden = this.from.value !== "time";
    if (this.from.value === "offset" && this.partition.value === "" && this.partition.options.length > 1) this.partition.value = "0";
  }

  /** The partitions that there are. */
  offer(partitions) {
    for (let at = this.partition.options.length - 1; at < partitions.length; at++) {
      this.partition.append(h("option", { value: String(at) }, `partition ${at}`));
    }
  }

  async read() {
    const at = this.from.value === "offset" ? this.offset.value : this.from.value === "time" ? new Date(this.time.value).getTime() : 0;
    if (Number.isNaN(at)) { fill(this.note, "Choose a time."); return; }
    fill(this.note, "Reading …");
    try {
      const found = await ask("/api/records", { topic: this.topic, partition: this.partition.value, from: this.from.value, at, count: COUNT, as: this.form.value });
      if (this.live) return;
      const records = this.from.value === "latest" ? found.records.reverse() : found.records;
      fill(this.list, records.map((one) => this.record(one)));
      fill(this.note, records.length ? many(records.length, "record", "records") : "No records there.",
        found.cut ? " Reading was cut short: they are too many, too large or too far apart to show at once." : "");
    } catch (error) {
      fill(this.note, error.message);
    }
  }

  begin() {
    this.live = true;
    this.missed = 0;
    this.follow.setAttribute("aria-pressed", "true");
    fill(this.list);
    fill(this.note, "Waiting for records …");
    this.tail({ partition: this.partition.value });
  }

  stop() {
    if (!this.live) return;
    this.live = false;
    this.follow.setAttribute("aria-pressed", "false");
    this.tail(null);
  }

  tailed(view) {
    if (!this.live) return;
    this.missed += view.left_out;
    for (const one of view.records) this.list.prepend(this.record(one));
    while (this.list.children.length > TAIL_MAX) this.list.lastChild.remove();
    fill(this.note, view.tail ? "As they come in, newest first." : "Waiting for records …", this.missed ? ` ${number(this.missed)} were too many to show.` : "");
  }

  record(one) {
    const line = h("button.line", { type: "button", "aria-expanded": "false" },
      h("span.place", `${one.partition}:${one.offset}`), h("span.at", moment(one.at_ms)),
      h("span.key.data", brief(one.key)), h("span.value.data", brief(one.value)), h("span.size", bytes(one.value.size)));
    const item = h("li.record", line);
    line.addEventListener("click", () => {
      const open = line.getAttribute("aria-expanded") === "true";
      line.setAttribute("aria-expanded", String(!open));
      if (open) item.lastChild.remove();
      else item.append(this.details(one));
    });
    return item;
  }

  details(one) {
    return h("div.details",
      this.field(one, "Key", "key", one.key), this.field(one, "Value", "value", one.value),
      one.headers.map(([name, value], at) => this.field(one, ["Header ", h("code.data", name)], `header:${at}`, value)),
      one.headers_left_out ? h("p.note", `and ${number(one.headers_left_out)} more headers`) : null);
  }

  field(record, label, part, value) {
    const content = h("pre.data");
    const note = h("span.quiet");
    const show = (shown) => {
      fill(content, shown.text);
      const size = shown.size === null ? "null" : shown.size === 0 ? "empty" : `${shown.form}, ${bytes(shown.size)}`;
      fill(note, size, shown.cut ? " · cut" : "");
    };
    const form = h("select", { "aria-label": `${part} shown as` }, Object.entries(FORMS).map(([name, said]) => h("option", { value: name }, said)));
    const load = async () => {
      try {
        show(await ask("/api/field", { topic: this.topic, partition: record.partition, offset: record.offset, part, as: form.value }));
      } catch (error) {
        fill(note, error.message);
      }
    };
    form.addEventListener("change", load);
    show(value);
    if (value.cut) load();
    return h("section.field", h("header", h("h3", label), note, value.size ? form : null), content);
  }
}

function brief(field) {
  if (field.size === null) return h("em", "null");
  if (field.size === 0) return h("em", "empty");
  return field.form === "hex" ? field.text.split("\n").map((row) => row.slice(8, 56).trim()).join(" ") : field.text;
}
