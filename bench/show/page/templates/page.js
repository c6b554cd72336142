"use strict";
// The page is whole without this script: it adds sorting, filters, the theme and the folding of the contents.
(() => {
  const SMALLEST_FILTERED = 6; // rows; a shorter table is read at a glance

  function number(text) {
    return parseFloat(text.replace("\u2212", "-"));
  }

  function compare(numeric, a, b) {
    if (!numeric) return a.localeCompare(b, "en", { numeric: true });
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return x - y;
  }

  function sortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      // The name stays outside the button: browsers leave buttons out of the heads that they repeat on printed pages.
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-label", `Sort by ${head.textContent}`);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      head.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
        heads.forEach((other) => other.setAttribute("aria-sort", other === head ? next : "none"));
        const numeric = head.classList.contains("n");
        const text = (row) => row.cells[place].textContent.trim();
        const missing = (row) => numeric && Number.isNaN(number(text(row)));
        const sign = next === "descending" ? -1 : 1;
        const rows = [...original];
        if (next !== "none") {
          // What is not a number stays last in both directions.
          rows.sort((a, b) => missing(a) - missing(b) || sign * compare(numeric, text(a), text(b)));
        }
        body.replaceChildren(...rows);
      });
    });
  }

  function filterable(table, tools, title) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < SMALLEST_FILTERED) return;
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const label = document.createElement("label");
    const input = document.createElement("input");
    const output = document.createElement("output");
    const choice = switchOf(table, rows);
    input.type = "search";
    input.setAttribute("aria-label", `Filter the rows of: ${title}`);
    input.placeholder = "words, all must occur";
    label.append("Filter", input);
    function show() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, place) => {
        const chosen = !choice || !choice.select.value || row.cells[choice.place].textContent.trim() === choice.select.value;
        row.hidden = !chosen || !words.every((word) => texts[place].includes(word));
        shown += !row.hidden;
      });
      output.textContent = shown < rows.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    }
    input.addEventListener("input", show);
    if (choice) {
      choice.select.addEventListener("change", show);
      tools.append(choice.label);
    }
    tools.append(label, output);
    show();
  }

  // A table of several data sets begins with the first one, which is that of the digits where they are among them.
  function switchOf(table, rows) {
    const place = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === "data set");
    const names = place < 0 ? [] : [...new Set(rows.map((row) => row.cells[place].textContent.trim()))];
    if (names.length < 2) return null;
    const label = document.createElement("label");
    const select = document.createElement("select");
    select.append(...names.map((name) => new Option(name, name)), new Option("all", ""));
    select.value = names.includes("mnist") ? "mnist" : names[0];
    label.append("Data set", select);
    return { label, select, place };
  }

  function named(table) {
    const names = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, place) => cell.setAttribute("data-column", names[place]));
    }
    table.classList.add("named");
  }

  function openTarget() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return; // an address that is none leads nowhere
    }
    if (!target) return;
    let closed = false;
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS" && !node.open) {
        node.open = true;
        closed = true;
      }
    }
    if (closed) target.scrollIntoView();
  }

  function remember(value) {
    try {
      if (value === undefined) return localStorage.getItem("theme") || "";
      localStorage.setItem("theme", value);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    return value || "";
  }

  function theme() {
    const button = document.getElementById("theme");
    const order = ["", "light", "dark"];
    function apply(value) {
      document.documentElement.dataset.theme = value;
      button.textContent = `Theme: ${value || "auto"}`;
    }
    let current = remember();
    if (!order.includes(current)) current = "";
    apply(current);
    button.hidden = false;
    button.addEventListener("click", () => {
      current = order[(order.indexOf(current) + 1) % order.length];
      remember(current);
      apply(current);
    });
  }

  function contents() {
    const button = document.getElementById("menu");
    const nav = document.getElementById("toc");
    function fold(folded) {
      nav.classList.toggle("folded", folded);
      button.setAttribute("aria-expanded", String(!folded));
    }
    fold(true);
    button.hidden = false;
    button.addEventListener("click", () => {
      fold(!nav.classList.contains("folded"));
      if (!nav.classList.contains("folded")) nav.scrollIntoView();
    });
    nav.addEventListener("click", (event) => {
      if (event.target.closest("a")) fold(true);
    });
  }

  document.querySelectorAll(".block table").forEach((table) => {
    const block = table.closest(".block");
    filterable(table, block.querySelector(".tools"), block.getAttribute("aria-label"));
    sortable(table);
  });
  const phone = matchMedia("(max-width: 40rem)");
  const tablet = matchMedia("(max-width: 60rem)");
  function cards(within) {
    within.querySelectorAll(".scroll table").forEach((table) => {
      table.classList.remove("named"); // its width as a table
      if (phone.matches || (tablet.matches && table.scrollWidth > table.parentElement.clientWidth + 1)) named(table);
    });
  }
  cards(document);
  [phone, tablet].forEach((screen) => screen.addEventListener("change", () => cards(document)));
  // What is folded has no width before it is opened.
  document.addEventListener("toggle", (event) => cards(event.target), true);
  // The findings are printed with their numbers. What else is folded is printed if its reader opens it.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll(".proof:not([open])")];
    unfolded.forEach((box) => { box.open = true; });
  });
  window.addEventListener("afterprint", () => unfolded.forEach((box) => { box.open = false; }));
  theme();
  contents();
  openTarget();
  window.addEventListener("hashchange", openTarget);
})();
