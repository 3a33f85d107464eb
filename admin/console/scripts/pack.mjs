// Puts the built pages from dist/ into bundle/, each as it is and compressed as far as it goes. The
// crate builds them in; manifest.tsv, written last, says that all are there. Fails when a page loads
// more JavaScript at first paint than it may.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

// Compressed JavaScript that the first page may load.
const FIRST_PAINT_BYTES_MAX = 250_000

const root = fileURLToPath(new URL('..', import.meta.url))
const [source, target] = [`${root}dist`, `${root}bundle`]

function pack(name) {
  const bytes = readFileSync(`${source}/${name}`)
  mkdirSync(dirname(`${target}/${name}`), { recursive: true })
  writeFileSync(`${target}/${name}`, bytes)
  const level = constants.Z_BEST_COMPRESSION
  writeFileSync(`${target}/${name}.gz`, gzipSync(bytes, { level }))
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  writeFileSync(`${target}/${name}.br`, brotliCompressSync(bytes, { params }))
  return `${name}\t${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}`
}

/** Files of a script and of what it imports before it runs. */
function closure(manifest, name, found = new Set()) {
  if (found.has(name)) return found
  found.add(name)
  for (const imported of manifest[name].imports ?? []) closure(manifest, imported, found)
  return found
}

/** Measures the first paint of each screen: the page's script, and then the screen's. */
function checkFirstPaint() {
  const manifest = JSON.parse(readFileSync(`${source}/.vite/manifest.json`, 'utf8'))
  const sizeOf = ({ file }) => gzipSync(readFileSync(`${source}/${file}`)).length
  const page = closure(manifest, 'index.html')
  const screens = manifest['index.html'].dynamicImports.map((screen) => {
    const names = [...closure(manifest, screen, new Set(page))]
    const bytes = names.reduce((sum, name) => sum + sizeOf(manifest[name]), 0)
    return { screen, bytes }
  })
  const { screen, bytes } = screens.sort((one, other) => other.bytes - one.bytes)[0]
  console.log(`JavaScript at first paint: ${bytes} bytes in gzip at most, by ${screen}`)
  if (bytes > FIRST_PAINT_BYTES_MAX) throw new Error('A first page loads too much JavaScript.')
}

checkFirstPaint()
mkdirSync(target, { recursive: true })
for (const old of readdirSync(target)) {
  if (old !== '.gitignore') rmSync(`${target}/${old}`, { recursive: true })
}
const files = readdirSync(source, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.parentPath.endsWith('.vite'))
  .map((entry) => `${entry.parentPath}/${entry.name}`.slice(source.length + 1))
  .sort()
writeFileSync(`${target}/manifest.tsv`, [...files.map(pack), ''].join('\n'))
