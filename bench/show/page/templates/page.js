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

  // A view is what a table shows: its words, its choices, its order. The address keeps the view that was changed last.
  function viewed(table, id) {
    const view = new Map();
    const parts = {}; // a function for each part, which shows the part's value
    return {
      part(name, apply) { parts[name] = apply; },
      keep(name, value) {
        if (value) view.set(name, value);
        else view.delete(name);
        const said = new URLSearchParams([...view]).toString();
        history.replaceState(null, "", `#${id}${said ? `?${said}` : ""}`);
      },
      restore(said) {
        for (const [name, value] of new URLSearchParams(said)) if (parts[name]) parts[name](value);
      },
    };
  }

  function sortable(table, view) {
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
      const name = head.textContent;
      function order(next) {
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
      }
      view.part(`sort ${name}`, (next) => ["ascending", "descending"].includes(next) && order(next));
      head.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
        heads.forEach((other) => view.keep(`sort ${other.firstChild.textContent}`, ""));
        view.keep(`sort ${name}`, next === "none" ? "" : next);
        order(next);
      });
    });
  }

  // The file has the rows that are shown, as they are shown.
  function downloadable(table, tools, id) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Download CSV";
    button.addEventListener("click", () => {
      const rows = [...table.rows].filter((row) => !row.hidden);
      const field = (cell) => `"${cell.textContent.trim().replaceAll('"', '""')}"`;
      const text = rows.map((row) => [...row.cells].map(field).join(",")).join("\r\n");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" }));
      link.download = `${id}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    tools.append(button);
  }

  function filterable(table, tools, title, view) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < SMALLEST_FILTERED) return;
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const label = document.createElement("label");
    const input = document.createElement("input");
    const output = document.createElement("output");
    const choices = ["data set", "recipe"].map((name) => switchOf(table, rows, name)).filter(Boolean);
    input.type = "search";
    input.setAttribute("aria-label", `Filter the rows of: ${title}`);
    input.placeholder = "words, all must occur";
    label.append("Filter", input);
    function show() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, place) => {
        const chosen = choices.every(({ select, place: at }) => !select.value || textAt(row, at) === select.value);
        row.hidden = !chosen || !words.every((word) => texts[place].includes(word));
        shown += !row.hidden;
      });
      output.textContent = shown < rows.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    }
    function control(field, name, event, empty) {
      field.addEventListener(event, () => {
        view.keep(name, field.value || empty);
        show();
      });
      view.part(name, (value) => {
        field.value = value === empty ? "" : value;
        show();
      });
    }
    control(input, "words", "input", "");
    choices.forEach(({ label: named, select, name }) => {
      control(select, name, "change", "all");
      tools.append(named);
    });
    tools.append(label, output);
    show();
  }

  function textAt(row, place) {
    return row.cells[place].textContent.trim();
  }

  // A table of several data sets begins with the first one, which is that of the digits where they are among them. A
  // table of published and corrected recipes begins with all.
  function switchOf(table, rows, name) {
    const place = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === name);
    const names = place < 0 ? [] : [...new Set(rows.map((row) => textAt(row, place)))];
    if (names.length < 2) return null;
    const label = document.createElement("label");
    const select = document.createElement("select");
    select.append(...names.map((one) => new Option(one, one)), new Option("all", ""));
    select.value = name === "recipe" ? "" : names.includes("mnist") ? "mnist" : names[0];
    label.append(name[0].toUpperCase() + name.slice(1), select);
    return { label, select, place, name };
  }

  function named(table) {
    const names = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, place) => cell.setAttribute("data-column", names[place]));
    }
    table.classList.add("named");
  }

  function openTarget() {
    const [id, said] = location.hash.slice(1).split("?");
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(id));
    } catch {
      return; // an address that is none leads nowhere
    }
    if (!target) return;
    if (views.has(id)) views.get(id).restore(said);
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

  const views = new Map(); // by the table's address
  document.querySelectorAll(".block table").forEach((table) => {
    const { id } = table.closest(".block");
    const tools = table.closest(".block").querySelector(".tools");
    const view = viewed(table, id);
    views.set(id, view);
    filterable(table, tools, table.caption.textContent, view);
    sortable(table, view);
    downloadable(table, tools, id);
  });
  // All that belongs to one network, in tables and figures, is marked while the pointer or the keyboard is on a part of
  // it. Tables name a network by its key or in words. A mark of a figure knows both, and the mark's title says its number.
  const partsOf = new Map();
  const namesOf = new Map();
  const put = (name, part) => partsOf.set(name, [...(partsOf.get(name) || []), part]);
  document.querySelectorAll(".block tbody tr").forEach((row) => put(textAt(row, 0), row));
  document.querySelectorAll(".mark").forEach((one) => {
    const names = one.dataset.names.split(",");
    names.forEach((name) => put(name, one));
    if (names.length > 1) names.forEach((name) => namesOf.set(name, names));
    const title = one.querySelector("title");
    one.setAttribute("aria-label", title.textContent);
    title.remove(); // the browser would show it beside the tip
  });
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // a mark's own label says the same
  document.body.append(tip);
  let same = [];
  function mark(event) {
    const part = event.target.closest(".block tbody tr, .mark");
    const one = event.target.closest(".mark");
    const names = one ? one.dataset.names.split(",") : part ? [textAt(part, 0)] : [];
    same.forEach((other) => other.classList.remove("same"));
    same = names.flatMap((name) => namesOf.get(name) || [name]).flatMap((name) => partsOf.get(name) || []);
    same.forEach((other) => other.classList.add("same"));
    tip.hidden = !one;
    if (!one) return;
    tip.textContent = one.getAttribute("aria-label");
    const { left, bottom } = one.getBoundingClientRect();
    tip.style.left = `${scrollX + Math.max(8, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${scrollY + bottom + 6}px`;
  }
  ["pointerover", "focusin"].forEach((kind) => document.addEventListener(kind, mark));
  // The tab key reaches one mark of a figure, the arrow keys the others.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") tip.hidden = true;
    const one = event.target.closest(".mark");
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!one || !step) return;
    event.preventDefault();
    const marks = [...one.closest("svg").querySelectorAll(".mark")];
    const next = marks[(marks.indexOf(one) + step + marks.length) % marks.length];
    one.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
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
  // All is printed but the evidence, of which its reader opens what is to be printed.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")].filter((box) => !box.closest("#evidence"));
    unfolded.forEach((box) => { box.open = true; });
  });
  window.addEventListener("afterprint", () => unfolded.forEach((box) => { box.open = false; }));
  theme();
  contents();
  openTarget();
  window.addEventListener("hashchange", openTarget);
})();
