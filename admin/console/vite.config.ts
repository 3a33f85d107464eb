import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// The server that `vite dev` passes calls of the API on to.
const api = process.env.MILLRACE_ADMIN_URL ?? 'http://127.0.0.1:8010'

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // The content security policy allows no `data:` addresses and no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Says which scripts a screen loads; scripts/pack.mjs measures by it.
    manifest: true,
    license: { fileName: 'licenses.md' },
  },
  server: {
    proxy: { '/api': api },
  },
})
