// Puts the files of posthog-js that Millrace serves into bundle/, each as it is and compressed as far as
// it goes, with its licence. The crate builds them in; manifest.tsv, written last, says that all are there.
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

// What pages name, and what those load by themselves for events that are stored. What belongs to
// replay, surveys, product tours, conversations or the toolbar is left out: Millrace has none of these.
const FILES = [
  'array.js',
  'array.full.js',
  'array.full.es5.js',
  'loader.js',
  'dead-clicks-autocapture.js',
  'exception-autocapture.js',
  'tracing-headers.js',
  'web-vitals.js',
  'web-vitals-soft-navs.js',
  'web-vitals-with-attribution.js',
  'web-vitals-with-attribution-soft-navs.js',
]

const root = fileURLToPath(new URL('.', import.meta.url))
const source = `${root}node_modules/posthog-js`
const target = `${root}bundle`

function pack(name, bytes) {
  writeFileSync(`${target}/${name}`, bytes)
  writeFileSync(`${target}/${name}.gz`, gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION }))
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length, [constants.BROTLI_PARAM_LGWIN]: 22 }
  writeFileSync(`${target}/${name}.br`, brotliCompressSync(bytes, { params }))
  return `${name}\t${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}`
}

for (const old of readdirSync(target)) {
  if (old !== '.gitignore') rmSync(`${target}/${old}`)
}
const { version } = JSON.parse(readFileSync(`${source}/package.json`))
const lines = FILES.map((name) => pack(name, readFileSync(`${source}/dist/${name}`)))
lines.push(pack('LICENSE.txt', readFileSync(`${source}/LICENSE`)))
writeFileSync(`${target}/manifest.tsv`, [version, ...lines, ''].join('\n'))
