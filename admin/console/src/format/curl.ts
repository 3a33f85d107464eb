// Commands to paste into a shell.

/** Call of the organization API as a command of curl; the key comes from the environment. */
export function curlOfCall(url: string, method = 'GET', body?: unknown): string {
  const parts = [`curl ${quoted(url)}`, '-H "Authorization: Bearer $PERSONAL_KEY"']
  if (method !== 'GET') parts.unshift(parts.shift()?.replace('curl', `curl -X ${method}`) ?? '')
  if (body !== undefined) {
    parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`)
  }
  return parts.join(' \\\n  ')
}

/** Event as a command of curl that sends it. */
export function curlOfEvent(ingestUrl: string, key: string, event: object): string {
  const body = JSON.stringify({ api_key: key, batch: [event] })
  const parts = [
    `curl ${ingestUrl}/batch/`,
    "-H 'Content-Type: application/json'",
    `-d ${quoted(body)}`,
  ]
  return parts.join(' \\\n  ')
}

/** Text as one word of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
