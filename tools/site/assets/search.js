// Searches the index that index.js has: a page is found if it contains all words; words in its title count more.
const box = document.getElementById("search");
const list = document.getElementById("results");

function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];

  return pages
    .map((page) => {
      const title = page.title.toLowerCase();
      const text = page.text.toLowerCase();
      if (!words.every((word) => title.includes(word) || text.includes(word))) return null;
      const counts = words.map((word) => (title.includes(word) ? 50 : 0) + Math.min(text.split(word).length - 1, 20));
      return { page, at: Math.max(0, text.indexOf(words[0])), score: counts.reduce((sum, n) => sum + n, 0) };
    })
    .filter(Boolean)
    .sort((a, b) => b.score - a.score)
    .slice(0, 12);
}

function show() {
  const found = find(box.value);
  list.replaceChildren();
  list.hidden = box.value.trim() === "";
  for (const { page, at } of found) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = document.body.dataset.root + page.url;
    link.textContent = page.title;
    const context = document.createElement("small");
    context.textContent = "…" + page.text.slice(Math.max(0, at - 50), at + 110) + "…";
    item.append(link, context);
    list.append(item);
  }
  if (found.length === 0) list.textContent = "No page contains these words.";
}

box.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  }
  if (event.key === "Escape") {
    box.value = "";
    show();
  }
});

box.value = new URLSearchParams(location.search).get("q") ?? ""; // a link to a search
if (box.value !== "") show();
