// Sends events with the real posthog-node and prints what it sent.
//
//     node send_node.mjs URL KEY COUNT [historical]
//
// Prints a JSON list of {uuid, event, distinct_id, timestamp, properties}; properties are the ones
// given to the SDK, which adds its own ($lib and such). Exits with 1 if the SDK reported an error.
import { PostHog } from 'posthog-node'

const USAGE = 'usage: node send_node.mjs URL KEY COUNT [historical]'
// Historical events are as old as an import's; both kinds step by a second and 1 ms.
const STEP_MS = 1001
const HISTORICAL_AGE_MS = 200 * 86_400_000

function event(index, start) {
  return {
    uuid: crypto.randomUUID(),
    event: index % 10 === 0 ? 'päge viewed 🚀' : 'clicked',
    distinct_id: index % 7 === 0 ? `użytkownik-${index} 👩‍🚀` : `user-${index % 50}`,
    timestamp: new Date(start + index * STEP_MS).toISOString(),
    properties: {
      index,
      text: 'quotes " and \\ and / and \n and \t',
      unicode: 'Köln – 東京 – 🦀',
      nested: { list: [1, 2.5, null, true, { deep: 'äöü' }], empty: {} },
      large: 9007199254740991,
      negative: -0.125,
      $current_url: `https://shop.example.com/products/${index}?a=1&b=%20`,
    },
  }
}

async function main([url, key, count, mode]) {
  if (!url || !key || !(count > 0)) throw new Error(USAGE)
  const historical = mode === 'historical'
  const client = new PostHog(key, { host: url, flushAt: 100, maxQueueSize: Number(count) + 1, historicalMigration: historical })
  const errors = []
  client.on('error', (error) => errors.push(String(error)))
  const start = Date.now() - count * STEP_MS - (historical ? HISTORICAL_AGE_MS : 0)
  const sent = Array.from({ length: Number(count) }, (_, index) => event(index, start))
  for (const { uuid, event, distinct_id, timestamp, properties } of sent) {
    client.capture({ uuid, event, distinctId: distinct_id, timestamp: new Date(timestamp), properties })
  }
  await client.shutdown(60_000)
  if (errors.length > 0) throw new Error(errors.join('\n'))
  process.stdout.write(JSON.stringify(sent) + '\n')
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message)
  process.exitCode = 1
})
