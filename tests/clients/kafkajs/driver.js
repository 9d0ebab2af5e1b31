// KafkaJS behind the line protocol of odradek/testing/foreign/driver.py. Arguments: bootstrap, folder with node_modules.
'use strict'
const fs = require('fs')
const path = require('path')
const readline = require('readline')

const [bootstrap, modules] = process.argv.slice(2)
const load = (name) => require(path.join(modules, 'node_modules', name))
const { Kafka, logLevel, CompressionTypes, CompressionCodecs, ConfigResourceTypes, PartitionAssigners } = load('kafkajs')

const DEADLINE_MS = 150000
const TYPES = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD }

// The build for browsers is plain JavaScript, while the one for node would have to be compiled. It declares a `require`.
function loadForBrowsers (name, file) {
  const source = fs.readFileSync(path.join(modules, 'node_modules', name, file), 'utf8')
  return new Function(`var require; ${source}; return require`)()(name)
}

// KafkaJS has gzip; the others are plugged in, as its documentation says.
async function plugCodecs () {
  CompressionCodecs[CompressionTypes.Snappy] = load('kafkajs-snappy')
  const lz4 = loadForBrowsers('lz4', 'build/lz4.js')
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => Buffer.from(lz4.encode(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(lz4.decode(buffer))
  })
  const zstd = await new Promise((resolve) => load('zstd-codec').ZstdCodec.run(resolve))
  const simple = new zstd.Simple()
  const streaming = new zstd.Streaming() // frames need not tell their content's size
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(simple.compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(streaming.decompress(buffer))
  })
}

const quiet = () => ({ log }) => process.stderr.write(JSON.stringify(log) + '\n')
const patient = { connectionTimeout: 60000, authenticationTimeout: 60000 } // a second to connect is short on a busy machine
const kafkaWith = (security) => new Kafka({ clientId: 'kafkajs', brokers: bootstrap.split(','), logLevel: logLevel.WARN, logCreator: quiet, ...patient, ...security })
let kafka = kafkaWith({})

// From now on with TLS and a login; a token is wanted as a function.
async function secure ({ ssl, sasl: { token, ...sasl } }) {
  if (token) sasl.oauthBearerProvider = async () => ({ value: token })
  kafka = kafkaWith({ ssl, sasl })
  return {}
}

const pack = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))
const unpack = (text) => (text === null ? null : Buffer.from(text, 'base64'))

function packHeaders (headers) {
  const all = Object.entries(headers || {})
  return all.flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => [name, pack(one)]))
}

function within (promise, what) {
  let timer
  const late = new Promise((_resolve, reject) => { timer = setTimeout(() => reject(new Error('too late: ' + what)), DEADLINE_MS) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

async function produce ({ topic, codec, records, idempotent }) {
  const producer = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined })
  await producer.connect()
  const messages = records.map(([key, value, headers, timestamp]) => ({
    partition: 0,
    key: unpack(key),
    value: unpack(value),
    timestamp: String(timestamp),
    headers: Object.fromEntries(headers.map(([name, data]) => [name, unpack(data)]))
  }))
  await producer.send({ topic, acks: -1, compression: TYPES[codec], messages })
  await producer.disconnect()
  return {}
}

// KafkaJS reads with groups only: one that commits nothing and is used once.
let readers = 0
async function consume ({ topic, count }) {
  const consumer = kafka.consumer({ groupId: 'kafkajs-reader-' + readers++, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const records = []
  let enough
  const done = new Promise((resolve) => { enough = resolve })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => {
      if (records.length < count) {
        records.push([pack(message.key), pack(message.value), packHeaders(message.headers), Number(message.timestamp)])
      }
      if (records.length === count) enough()
    }
  })
  await within(done, 'records')
  await consumer.disconnect()
  return { records }
}

const members = new Map()

async function join ({ member, group, topic }) {
  const consumer = kafka.consumer({ groupId: group, heartbeatInterval: 300, sessionTimeout: 10000, maxWaitTimeInMs: 200, partitionAssigners: [PartitionAssigners.roundRobin] })
  const state = { consumer, assignment: [], received: [] }
  members.set(member, state)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { state.assignment = payload.memberAssignment[topic] || [] })
  consumer.on(consumer.events.REBALANCING, () => { state.assignment = [] })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  // Not awaited: it returns only when the group has formed, which needs the other members.
  consumer.run({ eachMessage: async ({ partition, message }) => { state.received.push([partition, Number(message.offset)]) } })
    .catch((error) => { state.failure = error })
  return {}
}

async function look ({ member }) {
  const { assignment, received, failure } = members.get(member)
  if (failure) throw failure
  return { assignment, received }
}

async function leave ({ member }) {
  await within(members.get(member).consumer.disconnect(), 'leaving')
  return {}
}

async function create ({ topic }) {
  const client = kafka.admin()
  await client.connect()
  const found = {}
  found.created = await client.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 3, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] })
  found.createdAgain = await client.createTopics({ topics: [{ topic, numPartitions: 2 }] })
  await client.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  await client.disconnect()
  return found
}

// Of a topic that every broker knows.
async function admin ({ topic, group }) {
  const client = kafka.admin()
  await client.connect()
  const found = {}
  found.listed = (await client.listTopics()).includes(topic)
  found.partitions = (await client.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const retention = async () => {
    const answer = await client.describeConfigs({ includeSynonyms: false, resources: [{ ...resource, configNames: ['retention.ms'] }] })
    return answer.resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue])
  }
  found.retention = await retention()
  await client.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '7200000' }] }] })
  found.retentionAltered = await retention()
  const cluster = await client.describeCluster()
  found.brokers = cluster.brokers.length
  found.clusterId = cluster.clusterId
  found.offsets = await client.fetchTopicOffsets(topic)
  await client.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '0' }, { partition: 1, offset: '0' }] })
  found.committed = (await client.fetchOffsets({ groupId: group, topics: [topic] }))[0].partitions
  found.groupListed = (await client.listGroups()).groups.some(({ groupId }) => groupId === group)
  found.groupState = (await client.describeGroups([group])).groups[0].state
  found.groupDeleted = await client.deleteGroups([group])
  await client.deleteTopics({ topics: [topic] })
  await client.disconnect()
  return found
}

const ACTIONS = { secure, produce, consume, join, look, leave, create, admin }

async function main () {
  await plugCodecs()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer
    try {
      const command = JSON.parse(line)
      answer = await ACTIONS[command.do](command)
    } catch (error) {
      answer = { error: String(error.stack || error) }
    }
    process.stdout.write(JSON.stringify(answer, (_key, value) => (typeof value === 'bigint' ? String(value) : value)) + '\n')
  }
  process.exit(0)
}

main()
