"use strict";
// All details are open on paper.
addEventListener("beforeprint", () => {
  for (const d of document.querySelectorAll("details")) d.open = true;
});

// The filters of a fleet's page. Without this script everything is shown.
const form = document.getElementById("filters");
if (form) {
  const text = document.getElementById("text");
  const kind = document.getElementById("kind");
  const states = [...form.querySelectorAll("input[name=state]")];
  const groups = [...document.querySelectorAll("[data-group]")].map((e) => {
    const example = e.querySelector(".example")?.textContent ?? ""; // the name of one machine is not of its group
    return {
      element: e, id: e.dataset.group, state: e.dataset.state,
      kinds: e.dataset.kinds.split(" "), text: e.textContent.replace(example, "").toLowerCase(),
    };
  });
  const machines = [...document.querySelectorAll("[data-machine]")].map((e) => ({
    element: e, group: e.dataset.machine, text: e.firstElementChild.textContent.toLowerCase(),
  }));
  const effects = [...document.querySelectorAll("[data-effect]")];
  const columns = [...document.querySelectorAll("[data-column]")];

  const apply = () => {
    const wanted = text.value.trim().toLowerCase();
    const checked = new Set(states.filter((s) => s.checked).map((s) => s.value));
    const allowed = new Map();
    for (const g of groups) {
      if (checked.has(g.state) && (!kind.value || g.kinds.includes(kind.value))) {
        allowed.set(g.id, g.text.includes(wanted));
      }
    }

    const visible = new Set();
    let count = 0;
    for (const m of machines) {
      const isShown = allowed.has(m.group) && (allowed.get(m.group) || m.text.includes(wanted));
      m.element.hidden = !isShown;
      if (isShown) {
        visible.add(m.group);
        count++;
      }
    }
    for (const g of groups) g.element.hidden = !visible.has(g.id);
    for (const c of columns) c.hidden = !visible.has(c.dataset.column);
    for (const row of effects) {
      const isKind = !kind.value || row.dataset.effect === kind.value;
      row.hidden = !isKind || !row.querySelector("td.sign:not([hidden])");
    }
    document.getElementById("shown").textContent =
      count + " of " + machines.length + " machines in " + visible.size + " of " + groups.length + " groups";
  };

  form.addEventListener("input", apply);
  form.addEventListener("submit", (e) => e.preventDefault());
  form.hidden = false;
  apply();
}
