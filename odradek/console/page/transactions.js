// Transactional ids: which of them have something open, where, and for how long.

import { fill, fillOnce, h, table } from "./dom.js";
import { ago, many, moment, number } from "./words.js";

const PARTITIONS = 12;

export class TransactionsView {
  constructor({ root }) {
    this.title = "Transactions";
    this.asks = "transactions";
    this.note = h("p.figures", "Asking the coordinators …");
    this.said = h("p.said", { role: "alert" });
    this.place = h("div.scroll");
    fill(root, h("header.top", h("h1", "Transactions"), this.note), this.said, this.place);
  }

  changed() {}

  told(view) {
    if (view.error) { fill(this.said, view.error); return; }
    fill(this.said);
    const open = view.transactions.filter((one) => one.begun_ms !== null).length;
    fill(this.note, [many(view.transactions.length + view.left_out, "transactional id", "transactional ids"), open ? `${number(open)} open` : "none open"].join(" · "));
    fillOnce(this.place, JSON.stringify(view.transactions), () => (view.transactions.length ? list(view) : h("p.none", "No producer has used a transactional.id.")));
  }

  close() {}
}

function list(view) {
  return [table(["Transactional id", "State", "Open for", "Partitions", "Producer", "Coordinator"], view.transactions.map((one) => [
    h("strong.data", one.id), one.state,
    one.begun_ms === null ? "–" : [h("span", { title: moment(one.begun_ms) }, ago(one.begun_ms)), one.overdue ? h("strong.bad", " ! longer than its timeout") : null],
    [one.partitions.slice(0, PARTITIONS).join(", ") || "–", one.partitions.length > PARTITIONS ? ` and ${one.partitions.length - PARTITIONS} more` : null],
    `${one.producer}${one.epoch === null ? "" : `, epoch ${one.epoch}`}`, String(one.coordinator),
  ])),
  view.left_out ? h("p.note", `and ${number(view.left_out)} more`) : null];
}
