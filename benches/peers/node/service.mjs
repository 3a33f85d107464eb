// An ingestion service as people write it with fastify and @clickhouse/client.
//
// By default a request is inserted before it is answered, as ClickHouse's documentation advises for
// small requests: async_insert, and the answer is waited for. With BUFFER=1 a request is answered
// at once, and a timer inserts what has been collected, once a second.

import { createClient } from "@clickhouse/client";
import Fastify from "fastify";

const buffered = process.env.BUFFER === "1";
const flushMilliseconds = 1000;
const table = "peers.events";

const clickhouse = createClient({
  url: process.env.CLICKHOUSE_URL,
  username: process.env.CLICKHOUSE_USER,
  password: process.env.CLICKHOUSE_PASSWORD,
  max_open_connections: 128,
  clickhouse_settings: {
    date_time_input_format: "best_effort",
    ...(buffered ? {} : { async_insert: 1, wait_for_async_insert: 1 }),
  },
});

const insert = (values) => clickhouse.insert({ table, values, format: "JSONEachRow" });

const row = ({ uuid, event, distinct_id, timestamp, properties }) => ({
  uuid,
  event,
  distinct_id,
  timestamp,
  properties: JSON.stringify(properties ?? {}),
});

let rows = [];

async function flush() {
  const waiting = rows;
  rows = [];
  if (waiting.length === 0) return;
  try {
    await insert(waiting);
  } catch (error) {
    rows = waiting.concat(rows);
    throw error;
  }
}

const event = {
  type: "object",
  required: ["uuid", "event", "distinct_id", "timestamp"],
  properties: {
    uuid: { type: "string" },
    event: { type: "string" },
    distinct_id: { type: "string" },
    timestamp: { type: "string" },
    properties: { type: "object", additionalProperties: true },
  },
};
const schema = {
  body: {
    type: "object",
    required: ["api_key", "batch"],
    properties: { api_key: { type: "string" }, batch: { type: "array", items: event } },
  },
};

const app = Fastify({ logger: false, bodyLimit: 32 * 1024 * 1024 });

app.post("/batch/", { schema }, async (request) => {
  const values = request.body.batch.map(row);
  if (buffered) rows.push(...values);
  else await insert(values);
  return { status: 1 };
});

let timer;
if (buffered) {
  timer = setInterval(() => flush().catch((error) => console.error(error)), flushMilliseconds);
}

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    clearInterval(timer);
    await app.close();
    await flush();
    await clickhouse.close();
    process.exit(0);
  });
}

await app.listen({ host: "127.0.0.1", port: Number(process.env.PORT) });
