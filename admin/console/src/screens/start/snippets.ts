// Code that sends a first event, with the project's own key and address.

export interface Snippet {
  id: string
  label: string
  install?: string
  code: string
}

/** Snippets for a project; the same calls as in the README, which a test runs. */
export function snippets(host: string, key: string): Snippet[] {
  return [
    {
      id: 'curl',
      label: 'curl',
      code: `curl ${host}/batch/ -H 'Content-Type: application/json' -d '{
  "api_key": "${key}",
  "batch": [{"event": "signed up", "distinct_id": "ada", "properties": {"plan": "team"}}]
}'`,
    },
    {
      id: 'python',
      label: 'Python',
      install: 'pip install posthog',
      code: `from posthog import Posthog

posthog = Posthog("${key}", host="${host}")
posthog.capture("signed up", distinct_id="grace", properties={"plan": "team"})
posthog.shutdown()`,
    },
    {
      id: 'node',
      label: 'Node.js',
      install: 'npm install posthog-node',
      code: `import { PostHog } from 'posthog-node'

const posthog = new PostHog('${key}', { host: '${host}' })
posthog.capture({ distinctId: 'linus', event: 'signed up', properties: { plan: 'team' } })
await posthog.shutdown()`,
    },
    {
      id: 'browser',
      label: 'Web page',
      code: `<script src="${host}/static/loader.js" data-project-token="${key}" data-api-host="${host}"></script>
<script>posthog.capture('signed up', { plan: 'team' })</script>`,
    },
  ]
}
