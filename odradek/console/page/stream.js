// The server-sent events of /api/stream, read with fetch: the token goes in a header, and in no address.

const SILENCE_MS = 15000;
const PAUSES_MS = [250, 500, 1000, 2000, 4000];

export function token() {
  return sessionStorage.getItem("odradek-token") || "";
}

function headers() {
  return token() ? { Authorization: `Bearer ${token()}` } : {};
}

/** JSON from the console. Throws an Error with what it says. */
export async function ask(path, query = []) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { headers: headers() });
  return result(answer);
}

/** Have a broker killed, stopped, started, frozen. Throws an Error with what the console says. */
export async function act(broker, action) {
  const answer = await fetch("/api/act", {
    method: "POST",
    headers: { ...headers(), "Content-Type": "application/json" },
    body: JSON.stringify({ broker, action }),
  });
  return result(answer);
}

async function result(answer) {
  const value = await answer.json().catch(() => ({ error: `HTTP ${answer.status}` }));
  if (!answer.ok || value.error) throw new Error(value.error || `HTTP ${answer.status}`);
  return value;
}

/** The one stream of this page. `heard(event, data)`; `linked(state, reason)`: live, away or refused. */
export class Stream {
  constructor(heard, linked) {
    this.heard = heard;
    this.linked = linked;
    this.view = "";
    this.last = 0;
    this.turn = 0;
    this.abort = null;
  }

  /** Begin anew, with this view of the cluster besides the map. */
  look(view) {
    this.view = view;
    this.turn += 1;
    if (this.abort) this.abort.abort();
    this.run(this.turn);
  }

  async run(turn) {
    for (let failures = 0; turn === this.turn; failures++) {
      if (failures) await new Promise((done) => setTimeout(done, PAUSES_MS[Math.min(failures, PAUSES_MS.length) - 1]));
      if (turn !== this.turn) return;
      try {
        await this.once(turn, () => { failures = 0; });
      } catch (error) {
        if (turn !== this.turn) return;
        this.linked(error.refused ? "refused" : "away", error.message);
      }
    }
  }

  async once(turn, worked) {
    const abort = (this.abort = new AbortController());
    const alive = () => setTimeout(() => abort.abort(), SILENCE_MS);
    let timer = alive();
    try {
      const query = new URLSearchParams({ view: this.view, happening: this.last });
      const answer = await fetch(`/api/stream?${query}`, { headers: headers(), signal: abort.signal });
      if (!answer.ok) {
        const error = new Error((await answer.json().catch(() => ({}))).error || `HTTP ${answer.status}`);
        error.refused = true;
        throw error;
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the console has ended");
        clearTimeout(timer);
        timer = alive();
        text += value;
        const parts = text.split("\n\n");
        text = parts.pop();
        for (const part of parts) if (turn === this.turn) this.take(part);
        this.linked("live", "");
        worked();
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  take(part) {
    const cut = part.indexOf("\ndata: ");
    const event = part.slice("event: ".length, cut);
    const data = part.slice(cut + "\ndata: ".length);
    if (event === "alive") return;
    const value = JSON.parse(data);
    if (event === "happenings") {
      if (value[0].number <= this.last) this.heard("forget", null);
      this.last = value[value.length - 1].number;
    }
    this.heard(event, value);
  }
}
