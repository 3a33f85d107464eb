// Prints PostHog's HTML snippet as its plugin for Docusaurus puts it into pages.
//
//     node snippet.mjs URL KEY [OPTIONS]
//
// OPTIONS is a JSON object with further options of `posthog.init`.
import plugin from 'posthog-docusaurus'

const USAGE = 'usage: node snippet.mjs URL KEY [OPTIONS]'

function main([url, key, options = '{}']) {
  if (!url || !key) throw new Error(USAGE)
  const given = { ...JSON.parse(options), apiKey: key, appUrl: url, enableInDevelopment: true }
  const { headTags } = plugin({}, given).injectHtmlTags()
  const script = headTags.find((tag) => tag.tagName === 'script')
  process.stdout.write(`<script>${script.innerHTML}</script>\n`)
}

try {
  main(process.argv.slice(2))
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
}
