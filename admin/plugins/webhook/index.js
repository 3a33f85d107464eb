export function composeWebhook(event, { config }) {
  return {
    url: config.url,
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(event),
  };
}
