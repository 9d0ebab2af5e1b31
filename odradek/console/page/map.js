// The cluster as a loom: a thread for each broker, a line for each partition, and the knots on them.
// ● leads  ○ in sync  ◌ not in sync  × its broker is offline. A knot that leads slides to where it leads next.

import { fill, fillOnce, h, Rows } from "./dom.js";
import { act, token } from "./stream.js";
import { many, number } from "./words.js";
import { byTime, entry } from "./timeline.js";

const ROW = 28;
const RECENT = 14;
const MANY = 6;
const LABELS = { kill: "Kill", stop: "Stop", start: "Start", suspend: "Freeze", resume: "Thaw", isolate: "Cut off", rejoin: "Reconnect" };
const SLOTS = [["kill"], ["stop", "start"], ["suspend", "resume"], ["isolate", "rejoin"]];
const HINTS = {
  kill: "SIGKILL, without any notice to others",
  stop: "SIGTERM: it hands its partitions over first",
  start: "start it again",
  suspend: "SIGSTOP: its connections stay open, but it does not answer",
  resume: "SIGCONT",
  isolate: "cut its connection to ZooKeeper: it runs, but does not learn who leads",
  rejoin: "let it reach ZooKeeper again",
};

export class MapView {
  constructor({ root, known }) {
    this.title = "Cluster";
    this.known = known;
    this.filter = "";
    this.onlyTrouble = false;
    this.places = new Map();
    this.headline = h("h1", { "aria-live": "polite" });
    this.figures = h("p.figures");
    this.heads = h("div.heads");
    this.said = h("p.said", { role: "alert" });
    this.recent = h("ol.happenings");
    this.rows = new Rows({
      height: ROW,
      key: (item) => item.key,
      make: (item) => (item.topic ? this.makeTopic(item) : this.makePartition()),
      renew: (row, item) => (item.topic ? this.renewTopic(row, item) : this.renewPartition(row, item)),
    });
    const filter = h("input", { type: "search", placeholder: "Filter topics", "aria-label": "Filter topics" });
    filter.addEventListener("input", () => { this.filter = filter.value; this.changed(); });
    const trouble = h("input", { type: "checkbox" });
    trouble.addEventListener("change", () => { this.onlyTrouble = trouble.checked; this.changed(); });
    this.loom = h("section.loom", { "aria-label": "Partitions" }, this.heads, this.rows.element);
    fill(
      root,
      h("header.top", this.headline, this.figures),
      this.said,
      h("div.tools", filter, h("label.check", trouble, "only what is not whole"),
        h("p.legend", { "aria-hidden": "true" }, h("span", h("i.knot.lead"), "leads"), h("span", h("i.knot.sync"), "in sync"),
          h("span", h("i.knot.lag"), "not in sync"), h("span", h("i.knot.gone"), "broker offline"))),
      h("div.split", this.loom, h("aside.recent", { "aria-label": "What happened last" }, h("h2", "What happened"), this.recent,
        h("p", h("a", { href: "#/timeline" }, "All of the time line")))),
    );
  }

  changed() {
    const state = this.known.state;
    if (!state) { fillOnce(this.headline, "none", () => "Looking for the cluster …"); return; }
    fillOnce(this.headline, sentence(state), () => sentence(state));
    fillOnce(this.figures, JSON.stringify([state.cluster, state.figures, state.topics.length]), () => figures(state));
    const slot = document.activeElement?.dataset?.slot;
    fillOnce(this.heads, JSON.stringify([state.brokers, state.controller]), () => state.brokers.map((broker) => this.head(broker, state)));
    if (slot && !document.activeElement?.dataset?.slot) [...this.heads.querySelectorAll("[data-slot]")].find((one) => one.dataset.slot === slot)?.focus();
    this.brokers = new Map(state.brokers.map((broker, at) => [broker.id, { ...broker, at }]));
    this.loom.style.setProperty("--brokers", Math.max(1, state.brokers.length));
    this.loom.parentElement.dataset.many = state.brokers.length > MANY;
    this.rows.show(this.items(state));
    const latest = this.known.happenings.slice(-4 * RECENT).sort(byTime).slice(-RECENT).reverse();
    fillOnce(this.recent, String(latest.map((one) => one.number)), () => (latest.length ? latest.map((one) => entry(one)) : h("li.none", "Nothing since this console looks.")));
  }

  told() {}

  close() { this.rows.close(); }

  items(state) {
    const wanted = this.filter.toLowerCase();
    const items = [];
    const ordered = [...state.topics.filter((topic) => !topic.internal), ...state.topics.filter((topic) => topic.internal)];
    for (const topic of ordered) {
      if (wanted ? !topic.name.toLowerCase().includes(wanted) : topic.internal && !this.onlyTrouble && !troubled(topic, this.brokers)) continue;
      const partitions = [];
      topic.partitions.forEach((row, at) => {
        if (!this.onlyTrouble || isTroubled(row, this.brokers)) partitions.push({ key: `${topic.name}/${at}`, at, row });
      });
      if (!partitions.length && this.onlyTrouble) continue;
      items.push({ key: `${topic.name}/`, topic });
      items.push(...partitions);
    }
    return items;
  }

  head(broker, whole) {
    const here = broker.registered;
    const controller = whole.controller === broker.id && here;
    const local = broker.process;
    // What an absent broker was, and lines that are empty now: the buttons below must not move while somebody presses.
    if (here) this.places.set(broker.id, [broker.address, broker.rack]);
    const [address, rack] = this.places.get(broker.id) || [null, null];
    const line = (said) => (said ? h("p.address.warn", said) : local ? h("p.address", "\u00a0") : null);
    const state = local && local.state !== "registered" ? local.state.split(";")[0] : "";
    return h(`div.head${here ? "" : ".away"}`, { "data-broker": broker.id },
      h("h2", h("span.numeral", String(broker.id)), controller ? h("span.crown", { title: "the controller" }, "controller") : null),
      h("p.status", h(`i.state.${here ? "here" : "gone"}`), h("span", here ? "registered" : "not registered")),
      address ? h("p.address", address.replace(/:\d+$/, ""), h("span.port", address.match(/:\d+$/)?.[0])) : line(""),
      rack ? h("p.address", /^rack/i.test(rack) ? rack : `rack ${rack}`) : null,
      h("p.address", `leads ${number(broker.leads)} of ${number(broker.replicas)}`),
      line(broker.lagging ? `${number(broker.lagging)} not in sync` : ""),
      line(state),
      local && token() ? h("p.acts", SLOTS.map((slot) => this.button(broker.id, slot, local.actions))) : null);
  }

  /** Each button keeps its place, whatever it does at the moment: what moved under a finger would be pressed. */
  button(broker, slot, actions) {
    const action = slot.find((one) => actions.includes(one)) || slot[0];
    const button = h(`button.act.${action}`, { type: "button", title: HINTS[action], "aria-label": `${LABELS[action]} broker ${broker}`,
      "data-action": action, disabled: !actions.includes(action), "data-slot": `${broker} ${slot[0]}` }, LABELS[action]);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        await act(broker, action);
        fill(this.said);
      } catch (error) {
        fill(this.said, error.message);
      }
      if (button.isConnected) button.disabled = false;
    });
    return button;
  }

  makeTopic(item) {
    return h("div.row.title", h("a", { href: `#/topic/${encodeURIComponent(item.topic.name)}` }, item.topic.name), h("span.count"));
  }

  renewTopic(row, item) {
    const topic = item.topic;
    const said = health(topic, this.brokers);
    fillOnce(row.lastChild, said, () => said);
  }

  makePartition() {
    const row = h("div.row.partition", h("span.label"), h("span.track"));
    row.knots = new Map();
    row.lead = h("i.knot.lead.sliding");
    row.lastChild.append(row.lead);
    return row;
  }

  renewPartition(row, { at, row: [leader, epoch, replicas, isr, adding = []] }) {
    const key = `${leader};${epoch};${replicas};${isr};${adding};${[...this.brokers.values()].map((one) => `${one.id}${one.registered}`)}`;
    if (row.dataset.key === key) return;
    row.dataset.key = key;
    fill(row.firstChild, String(at));
    const place = (element, broker) => element.style.setProperty("--at", this.brokers.get(broker).at);
    for (const [broker, knot] of row.knots) {
      if (!replicas.includes(broker)) { knot.remove(); row.knots.delete(broker); }
    }
    for (const broker of replicas) {
      let knot = row.knots.get(broker);
      if (!knot) {
        knot = h("i");
        row.knots.set(broker, knot);
        row.lastChild.prepend(knot);
      }
      knot.className = `knot ${mark(broker, isr, this.brokers)}`;
      place(knot, broker);
    }
    const led = this.brokers.get(leader)?.registered;
    row.lead.hidden = !led;
    if (led) place(row.lead, leader);
    row.classList.toggle("leaderless", !led);
    const words = led ? `leader ${leader}` : "no leader";
    row.title = `partition ${at}: ${words}, epoch ${epoch}, ISR ${isr.join(", ") || "empty"} of replicas ${replicas.join(", ")}${adding.length ? `, ${adding.join(", ")} being added` : ""}`;
    row.setAttribute("aria-label", row.title);
  }
}

function mark(broker, isr, brokers) {
  if (!brokers.get(broker).registered) return "gone";
  return isr.includes(broker) ? "sync" : "lag";
}

// Number of a partition's replicas without those that a reassignment is adding, which are not missing yet.
export const replication = ([, , replicas = [], , adding = []] = []) => replicas.length - adding.length;

const isLacking = (row) => row[3].length < replication(row);

const isTroubled = (row, brokers) => isLacking(row) || !brokers.get(row[0])?.registered;

const troubled = (topic, brokers) => topic.partitions.some((row) => isTroubled(row, brokers));

export function health(topic, brokers) {
  let lacking = 0;
  let leaderless = 0;
  for (const row of topic.partitions) {
    if (isLacking(row)) lacking += 1;
    if (!brokers.get(row[0])?.registered) leaderless += 1;
  }
  const parts = [many(topic.partitions.length, "partition", "partitions")];
  if (leaderless) parts.push(`${number(leaderless)} without a leader`);
  if (lacking) parts.push(`${number(lacking)} not whole`);
  return parts.join(" · ");
}

function sentence(state) {
  const { partitions, under_replicated: under, leaderless } = state.figures || { partitions: 0 };
  if (!state.brokers.length) return "No broker answers.";
  if (leaderless) return `${many(leaderless, "partition has", "partitions have")} no leader.`;
  if (under) return `${many(under, "partition lacks", "partitions lack")} a replica; all of them are led.`;
  if (!partitions) return "A cluster without topics.";
  return "Every partition is led and in sync.";
}

function figures(state) {
  const here = state.brokers.filter((broker) => broker.registered).length;
  const own = state.topics.filter((topic) => topic.internal).length;
  const parts = [
    here === state.brokers.length ? many(here, "broker", "brokers") : `${here} of ${many(state.brokers.length, "broker", "brokers")}`,
    many(state.topics.length - own, "topic", "topics") + (own ? ` and ${own} of Kafka's own` : ""),
    many(state.figures.partitions, "partition", "partitions"),
  ];
  if (state.figures.not_preferred) parts.push(`${number(state.figures.not_preferred)} not led by the preferred replica`);
  return [parts.join(" · "), state.cluster ? h("span.cluster", `cluster ${state.cluster}`) : null];
}
