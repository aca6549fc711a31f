// Reads records with kafkajs, and prints each as a line of JSON; arguments as in reading/reading.go. kafkajs has no assignment: it seeks in a group.
const { createRequire } = require('module');
const need = createRequire(`${process.env.CLIENTS}/node_modules/`);
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = need('kafkajs');
const lz4 = need('lz4js'), zstd = need('fzstd');
const reads = decompress => () => ({ compress: () => { throw new Error('not used'); }, decompress: async data => Buffer.from(decompress(data)) });
CompressionCodecs[CompressionTypes.Snappy] = need('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = reads(data => lz4.decompress(data));
CompressionCodecs[CompressionTypes.ZSTD] = reads(data => zstd.decompress(data));

const PATIENCE = 60000; // ms
const [address, how, isolation, count, ...what] = process.argv.slice(2);
const [kind, name] = how.split('=');
const places = kind === 'assign' ? what.map(one => one.split(':')) : [];
const topics = kind === 'assign' ? [...new Set(places.map(([topic]) => topic))] : what;
const wanted = new Set(places.map(([topic, partition]) => `${topic}:${partition}`));
const text = data => data === null || data === undefined ? null : Buffer.from(data).toString('base64');
const headers = found => Object.entries(found || {}).flatMap(([key, values]) => [values].flat().map(value => [key, text(value)]));

async function read() {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [address], logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({ groupId: name || 'assigned', readUncommitted: isolation !== 'read_committed', maxWaitTimeInMs: 200 });
  await consumer.connect();
  await consumer.subscribe({ topics, fromBeginning: true });
  const lines = [];
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${count - lines.length} records did not come`)), PATIENCE);
    const eachMessage = async ({ topic, partition, message }) => {
      if (lines.length >= count || (wanted.size && !wanted.has(`${topic}:${partition}`))) return;
      lines.push(JSON.stringify({ topic, partition, offset: Number(message.offset), timestamp: Number(message.timestamp), key: text(message.key),
        value: text(message.value), headers: headers(message.headers) }));
      if (lines.length >= count) setTimeout(resolve, 100);
    };
    consumer.run({ autoCommit: kind !== 'assign', eachMessage }).catch(reject);
    for (const [topic, partition, offset] of places) consumer.seek({ topic, partition: Number(partition), offset });
  });
  await consumer.disconnect(); // commits
  process.stdout.write(lines.join('\n') + '\n', () => process.exit()); // its timer is still there
}

read().catch(error => { console.error(error); process.exit(1); });
