// Which view is shown, and what is known: the rest of the page is told when it changes.

import { fill, h } from "./dom.js";
import { Stream } from "./stream.js";
import { keys } from "./keys.js";
import { MapView } from "./map.js";
import { TopicsView } from "./topics.js";
import { TopicView } from "./topic.js";
import { GroupsView } from "./groups.js";
import { GroupView } from "./group.js";
import { TransactionsView } from "./transactions.js";
import { TimelineView } from "./timeline.js";

const VIEWS = {
  map: [MapView, "map"],
  topics: [TopicsView, "topics"],
  topic: [TopicView, "topics"],
  groups: [GroupsView, "groups"],
  group: [GroupView, "groups"],
  transactions: [TransactionsView, "transactions"],
  timeline: [TimelineView, "timeline"],
};
const HAPPENINGS_MAX = 1000;

const known = { state: null, happenings: [], link: "away", reason: "" };
const main = document.getElementById("main");
let shown = null;

const stream = new Stream(heard, linked);

function heard(event, value) {
  if (event === "state") known.state = value;
  else if (event === "forget") known.happenings = [];
  else if (event === "happenings") known.happenings = known.happenings.concat(value).slice(-HAPPENINGS_MAX);
  if (event === "view") shown.told(value);
  else shown.changed();
  if (event === "state") sayLink();
}

function linked(link, reason) {
  if (known.link === link && known.reason === reason) return;
  Object.assign(known, { link, reason });
  sayLink();
}

function sayLink() {
  const trouble = known.link === "live" && known.state ? known.state.trouble : "";
  const said = { live: "live", away: "reconnecting …", refused: known.reason }[known.link];
  const place = document.getElementById("link");
  place.dataset.link = trouble ? "away" : known.link;
  fill(place, h("i"), trouble ? `the cluster does not answer: ${trouble}` : said);
  document.body.dataset.link = place.dataset.link;
}

/** `#/topic/NAME/messages` → ["topic", "NAME", "messages"]; names may hold anything. */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return VIEWS[parts[0]] ? parts : ["map"];
}

function go() {
  if (location.hash === "#main") return main.focus();
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem("odradek-token", given[1]);
    return history.replaceState(null, "", "#/map"), go();
  }
  const [name, ...rest] = route();
  const [View, place] = VIEWS[name];
  if (shown && shown.constructor === View && shown.stay && shown.stay(rest)) return undefined;
  if (shown) shown.close();
  scrollTo(0, 0);
  const root = h("div.view");
  fill(main, root);
  main.dataset.view = name;
  shown = new View({ root, known, rest, look: (view) => stream.look(view) });
  document.title = `${shown.title} · Odradek`;
  for (const link of document.querySelectorAll(".side nav a")) {
    if (link.dataset.view === place) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  stream.look(shown.asks || "");
  shown.changed();
  return undefined;
}

addEventListener("hashchange", go);
keys();
go();
sayLink();
