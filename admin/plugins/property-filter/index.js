export function setupPlugin({ config, global }) {
  global.names = config.properties
    .split(",")
    .map((name) => name.trim())
    .filter(Boolean);
}

export function processEvent(event, { global }) {
  for (const name of global.names) {
    delete event.properties?.[name];
  }
  return event;
}
