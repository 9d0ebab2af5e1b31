// A test of a program on KafkaJS: `npm install kafkajs`, `pip install odradek`, `node --test orders.test.js`

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { createInterface } = require("node:readline");
const test = require("node:test");
const { Kafka, logLevel } = require("kafkajs");

let mock, bootstrap, faults;

test.before(async () => {
  mock = spawn("odradek", ["mock", "--brokers", "3", "--topic", "orders", "--faults-api", "0"]);
  const [line] = await once(createInterface({ input: mock.stdout }), "line");
  ({ bootstrap, faults } = JSON.parse(line));
});

test.after(() => mock.kill());

async function ask(method, named) {
  const answer = await fetch(`${faults}/${method}`, { method: "POST", body: JSON.stringify(named) });
  const said = await answer.json();
  assert.ok(answer.ok, said.error);
  return said;
}

test("orders survive a refusal and the death of the leader", async () => {
  const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();

  const { fault } = await ask("respond", { api: "Produce", error: "NOT_LEADER_OR_FOLLOWER", topic: "orders" });
  await producer.send({ topic: "orders", messages: [{ value: "first" }] });
  await ask("wait_for", { fault }); // it has struck, and the client has sent it again

  await ask("kill", { broker: await ask("leader", { topic: "orders" }) });
  await producer.send({ topic: "orders", messages: [{ value: "second" }] });
  await producer.disconnect();

  const records = await ask("records", { topic: "orders" });
  assert.deepStrictEqual(records.map((record) => record.value), ["first", "second"]);
});
