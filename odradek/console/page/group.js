// One group: its members, how far it is behind, and its generations on a time line.

import { fill, fillOnce, h, table } from "./dom.js";
import { ago, clock, many, moment, number, span } from "./words.js";

const SHOWN = 12;

export class GroupView {
  constructor({ root, rest }) {
    [this.id] = rest;
    this.title = this.id;
    this.asks = `group:${this.id}`;
    this.headline = h("p.figures", "Asking its coordinator …");
    this.said = h("p.said", { role: "alert" });
    this.generations = h("section");
    this.members = h("section.scroll");
    this.partitions = h("section.scroll");
    fill(root, h("header.top", h("p.back", h("a", { href: "#/groups" }, "Groups")), h("h1.name", this.id), this.headline), this.said,
      this.generations, this.members, this.partitions);
  }

  changed() {}

  told(view) {
    if (view.error) { fill(this.said, view.error); return; }
    fill(this.said);
    const newest = view.rebalances.generations[view.rebalances.generations.length - 1];
    const facts = [view.state === "Dead" ? "There is no group of this name" : view.in_zookeeper ? "Offsets and members in ZooKeeper" : view.state,
      view.in_zookeeper ? null : many(view.members.length + view.members_left_out, "member", "members"),
      view.lag ? `${many(view.lag, "record", "records")}${view.seconds ? ` and ${span(view.seconds)}` : ""} behind` : "up to date"];
    if (newest && newest.generation !== null) facts.push(`generation ${newest.generation}`);
    if (view.assignor) facts.push(view.assignor);
    if (!view.in_zookeeper) facts.push(`coordinator ${view.coordinator}`);
    fill(this.headline, facts.filter(Boolean).join(" · "));
    fillOnce(this.generations, JSON.stringify(view.rebalances), () => (view.in_zookeeper ? null : generations(view.rebalances)));
    fillOnce(this.members, JSON.stringify(view.members), () => (view.in_zookeeper ? null : members(view)));
    fillOnce(this.partitions, JSON.stringify(view.partitions), () => partitions(view));
  }

  close() {}
}

/** Each rebalance a step on a line of time, as high as the group had members; the last of them in words below. */
function generations({ generations: found, error }) {
  const title = h("h2.section", "Rebalances");
  if (error) return [title, h("p.note", error)];
  if (!found.length) return [title, h("p.note", "No rebalance is on record.")];
  const first = found[0].at_ms;
  const last = Math.max(Date.now(), found[found.length - 1].at_ms);
  const most = Math.max(1, ...found.map((one) => one.members.length));
  const steps = h("div.steps", { role: "img", "aria-label": `${many(found.length, "rebalance", "rebalances")} since ${moment(first)}` });
  found.forEach((one, at) => {
    const until = at + 1 < found.length ? found[at + 1].at_ms : last;
    const step = h("i.step", { title: words(one) });
    step.style.left = `${(100 * (one.at_ms - first)) / Math.max(1, last - first)}%`;
    step.style.width = `${(100 * (until - one.at_ms)) / Math.max(1, last - first)}%`;
    step.style.height = `${4 + (60 * one.members.length) / most}px`;
    steps.append(step);
  });
  const list = found.slice(-SHOWN).reverse().map((one, at, all) => h("li", h("span.at", clock(one.at_ms)), h("span", words(one, all[at + 1]))));
  return [title, steps, h("p.axis", h("span", moment(first)), h("span", `now, ${ago(first)} later`)), h("ol.generations", list)];
}

function words(one, before) {
  if (one.generation === null) return "the group was deleted, or had nothing left to keep";
  const joined = before ? one.members.length - before.members.length : 0;
  const change = joined > 0 ? `, ${joined} more` : joined < 0 ? `, ${-joined} fewer` : "";
  const who = one.members.length ? `: ${one.members.slice(0, 8).join(", ")}${one.members.length > 8 ? " …" : ""}` : "";
  return `generation ${one.generation}, ${many(one.members.length, "member", "members")}${change}${who}`;
}

function members(view) {
  if (!view.members.length) return [h("h2.section", "Members"), h("p.note", "Nobody is in it.")];
  return [h("h2.section", "Members"), table(["Client", "Host", "Partitions", "Behind", "Member"], view.members.map((one) => [
    [one.client, one.instance ? h("span.quiet", ` static ${one.instance}`) : null], one.host, number(one.partitions), number(one.lag), h("code.quiet", one.id),
  ])),
  view.members_left_out ? h("p.note", `and ${number(view.members_left_out)} more`) : null];
}

function partitions(view) {
  if (!view.partitions.length) return null;
  const most = Math.max(1, ...view.partitions.map((row) => row[4] || 0));
  const clients = new Map(view.members.map((one) => [one.id, one.client]));
  return [h("h2.section", "Partitions, furthest behind first"),
    table(["Partition", "#Committed", "#Next offset", "Behind", "#In time", "Read by"], view.partitions.map(([topic, partition, committed, end, lag, owner, seconds]) => {
      const bar = h("i.bar");
      bar.style.width = `${Math.round((80 * (lag || 0)) / most)}px`;
      return [`${topic}-${partition}`, number(committed), number(end), lag === null ? "nothing committed" : [bar, number(lag)], lag && seconds === 0 ? "< 5 s" : span(seconds),
        owner ? clients.get(owner) || owner : view.in_zookeeper ? "–" : h("em", "nobody")];
    })), view.partitions_left_out ? h("p.note", `and ${number(view.partitions_left_out)} more`) : null];
}
