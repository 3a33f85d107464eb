// Search, own address in commands, copying, and opening what an address names. The page can be
// read without any of it.
"use strict";

const HOST = "https://millrace.example";

function searchable() {
  return [...document.querySelectorAll("main details")].map((element) => ({
    element,
    section: element.closest("section"),
    text: element.textContent.toLowerCase(),
  }));
}

// Shows the entries that have every word, and the sections that have such an entry.
function search(entries, words, status) {
  const sections = new Map();
  let count = 0;
  for (const { element, section, text } of entries) {
    const isFound = words.every((word) => text.includes(word));
    element.hidden = !isFound;
    count += isFound ? 1 : 0;
    sections.set(section, Boolean(sections.get(section)) || isFound);
  }
  for (const [section, hasFound] of sections) {
    section.hidden = !hasFound;
  }
  for (const section of document.querySelectorAll("main section.about")) {
    const text = section.textContent.toLowerCase();
    section.hidden = !words.every((word) => text.includes(word));
  }
  if (words.length === 0) {
    status.textContent = "";
  } else {
    status.textContent = count === 1 ? "1 entry" : `${count} entries`;
  }
}

function setUpSearch() {
  const input = document.getElementById("search");
  const status = document.getElementById("found");
  const entries = searchable();
  const run = () => search(entries, input.value.toLowerCase().split(/\s+/).filter(Boolean), status);
  input.closest(".search").hidden = false;
  input.addEventListener("input", run);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      run();
    }
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    }
  });
  return () => {
    input.value = "";
    run();
  };
}

// An address with `#…` opens its entry; one that the search hides is shown.
function openNamed(showAll) {
  const id = decodeURIComponent(location.hash.slice(1));
  const named = id && document.getElementById(id);
  if (!named) {
    return;
  }
  if (named.closest("[hidden]")) {
    showAll();
  }
  if (named.tagName === "DETAILS") {
    named.open = true;
  }
  named.scrollIntoView();
}

function setUpExamples() {
  for (const pre of document.querySelectorAll("pre")) {
    const code = pre.firstElementChild || pre;
    code.textContent = code.textContent.replaceAll(HOST, location.origin);
    if (!navigator.clipboard) {
      continue;
    }
    const box = document.createElement("div");
    box.className = "example";
    pre.replaceWith(box);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    box.append(pre, button);
  }
}

setUpExamples();
const showAll = setUpSearch();
openNamed(showAll);
window.addEventListener("hashchange", () => openNamed(showAll));
