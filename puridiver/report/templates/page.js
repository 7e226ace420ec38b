"use strict";

// Light and dark ------------------------------------------------------------------------------------------------------
const themeButton = document.getElementById("theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (systemDark.matches ? "dark" : "light")) === "dark";
const nameTheme = () => { themeButton.textContent = isDark() ? "Light colours" : "Dark colours"; };
themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
systemDark.addEventListener("change", nameTheme);
nameTheme();

// Galleries -----------------------------------------------------------------------------------------------------------
const PAGE_SIZE = 48;

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text; // never HTML: class names may hold anything
  return made;
}

// A cell that a spreadsheet would take for a formula gets an apostrophe in front.
function csvCell(value) {
  const text = String(value);
  const guarded = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
  return /[",\r\n]/.test(guarded) ? '"' + guarded.replaceAll('"', '""') + '"' : guarded;
}

// A review's corrections, kept in the browser under the audit's key: {rows: {row: class}, downloaded: whether a file has them}.
function storedReview(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key));
    return found && typeof found.rows === "object" && found.rows ? found : { rows: {}, downloaded: true };
  } catch { // no storage allowed, or not ours
    return { rows: {}, downloaded: true };
  }
}

function storeReview(key, review) {
  try {
    if (Object.keys(review.rows).length) localStorage.setItem(key, JSON.stringify(review));
    else localStorage.removeItem(key);
  } catch { /* no storage allowed: the question on leaving remains */ }
}

function setUpGallery(section) {
  const data = JSON.parse(section.querySelector(".data").textContent);
  const form = section.querySelector("form"), cards = section.querySelector(".cards");
  const samples = data.rows.map((row, index) => ({
    ...row, index, truth: row.truth === -1 ? null : row.truth, corrected: null, // -1: nobody knows; -2: wrong, and that is all
    words: [row.given, row.suggested, row.truth].map((c) => data.classes[c] ?? "").concat(String(row.arrival), row.name).map((word) => word.toLowerCase()),
  }));
  const byName = (key) => (a, b) => data.classes[a[key]].localeCompare(data.classes[b[key]]) || a.p - b.p || a.arrival - b.arrival;
  const orders = {
    doubt: (a, b) => a.index - b.index, // rows come in this order
    sure: (a, b) => b.p - a.p || a.arrival - b.arrival,
    arrival: (a, b) => a.arrival - b.arrival,
    recent: (a, b) => b.arrival - a.arrival,
    given: byName("given"),
    suggested: byName("suggested"),
  };
  let shown = [], page = 0, downloaded = true;

  function restoreReview() {
    const stored = storedReview(data.review.key), done = new Set(data.review.checked);
    for (const sample of samples) {
      const label = stored.rows[sample.arrival];
      const applied = done.has(sample.arrival) && label === sample.given; // the audit went on with it
      if (Number.isInteger(label) && label in data.classes && !applied) sample.corrected = label;
    }
    downloaded = stored.downloaded || !reviewedSamples().length;
  }

  function keepReview() {
    const rows = Object.fromEntries(reviewedSamples().map((sample) => [sample.arrival, sample.corrected]));
    storeReview(data.review.key, { rows, downloaded });
  }

  const reviewedSamples = () => samples.filter((sample) => sample.corrected !== null);

  function matches(sample) {
    const wanted = Object.fromEntries(new FormData(form));
    const text = wanted.text.trim().toLowerCase();
    if (text && !sample.words.some((word) => word.includes(text))) return false;
    if (wanted.class && ![sample.given, sample.suggested].includes(Number(wanted.class))) return false;
    if (wanted.set && sample.set !== Number(wanted.set)) return false;
    if (wanted.doubt === "doubtful" && sample.p >= 0.5) return false;
    if (wanted.doubt === "reviewed" && sample.corrected === null) return false;
    if (wanted.doubt === "differs" && sample.given === sample.suggested) return false;
    if (wanted.truth && (sample.truth === null || (sample.truth === sample.given) !== (wanted.truth === "right"))) return false;
    return true;
  }

  function thumbnail(sample) {
    const image = element("img", "thumb");
    image.src = data.images[sample.index];
    image.alt = `image ${data.review ? "of row" : "that arrived as number"} ${sample.arrival}, labelled ${data.classes[sample.given]}`;
    return image;
  }

  function placed(sample) {
    const last = element("div");
    last.append(element("span", "chip", data.sets[sample.set]), ` no. ${sample.arrival}`);
    if (sample.name) last.append(element("div", "muted", sample.name));
    return last;
  }

  // What an audit adds to a card: where the sample is, why it is doubted, and a place for the reader's word.
  function reviewed(sample) {
    const choice = element("select");
    choice.setAttribute("aria-label", `right label of row ${sample.arrival}`);
    choice.append(new Option("not reviewed", ""), ...data.classes.map((name, c) => new Option(name, c)));
    choice.value = sample.corrected ?? "";
    choice.addEventListener("change", () => {
      sample.corrected = choice.value === "" ? null : Number(choice.value);
      downloaded = !reviewedSamples().length;
      keepReview();
      nameDownloads();
    });
    const place = element("div", "muted", `row ${sample.arrival}${sample.name ? ": " + sample.name : ""}`);
    return [place, element("div", "why", sample.why), choice];
  }

  function card(sample) {
    const item = element("li"), name = (c) => data.classes[c];
    item.dataset.arrival = sample.arrival;
    const label = element("div", "", "label ");
    label.append(element("b", "", name(sample.given)));
    const better = element("div", "", "suggested ");
    better.append(element("b", "", name(sample.suggested)));
    const bar = element("div", "bar"), fill = element("i");
    fill.style.width = `${100 * sample.p}%`;
    bar.append(fill);
    const sure = element("div", "", data.review ? `chance right ${(100 * sample.p).toFixed(1)} %` : `trust ${sample.p.toFixed(2)}`);
    item.append(thumbnail(sample), label, better, sure, bar, ...(data.review ? reviewed(sample) : [placed(sample)]));
    if (sample.truth !== null) {
      const right = sample.truth === sample.given;
      item.append(element("div", right ? "is-right" : "is-wrong", right ? "in truth: right" : `in truth: ${name(sample.truth) ?? "wrong"}`));
    }
    return item;
  }

  function describe() {
    const known = shown.filter((sample) => sample.truth !== null);
    const wrong = known.filter((sample) => sample.truth !== sample.given).length;
    const whose = known.length === shown.length ? "these" : `the ${known.length} whose truth is known`;
    const truth = known.length ? `; of ${whose} ${wrong} ${wrong === 1 ? "label is" : "labels are"} wrong` : "";
    return `${shown.length} of ${samples.length} samples${truth}.`;
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE_SIZE));
    cards.replaceChildren(...shown.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE).map(card));
    section.querySelector(".page").textContent = `page ${page + 1} of ${pages}`;
    section.querySelector(".previous").disabled = page === 0;
    section.querySelector(".next").disabled = page + 1 >= pages;
  }

  function update() {
    shown = samples.filter(matches).sort(orders[form.elements.sort.value]);
    page = 0;
    section.querySelector(".count").textContent = describe();
    nameDownloads();
    draw();
  }

  function nameDownloads() {
    const button = section.querySelector(".download");
    button.textContent = `Download ${shown.length === 1 ? "this row" : `these ${shown.length} rows`} as CSV`;
    button.disabled = !shown.length;
    const corrections = section.querySelector(".corrections");
    if (!corrections) return;
    const count = reviewedSamples().length;
    corrections.textContent = `Download ${count} correction${count === 1 ? "" : "s"}`;
    corrections.disabled = !count;
  }

  const named = (c) => data.classes[c] ?? "";
  const withNames = samples.some((sample) => sample.name); // files that the images came from
  const nameOf = (s) => (withNames ? [s.name] : []);
  const ofMemory = (s) => [s.arrival, ...nameOf(s), named(s.given), named(s.suggested), s.p, data.sets[s.set], s.truth === -2 ? `not ${named(s.given)}` : named(s.truth)];
  const ofAudit = (s) => [s.arrival, s.name, named(s.given), named(s.suggested), s.p, s.why, named(s.corrected)];

  function download(chosen, file) {
    const head = data.review?.head ?? ["arrival", ...(withNames ? ["name"] : []), "given_label", "suggested_label", "trust", "set", "true_label"];
    const rows = chosen.map(data.review ? ofAudit : ofMemory);
    const text = [head, ...rows].map((row) => row.map(csvCell).join(",") + "\r\n").join("");
    // Without a mark in front spreadsheets take letters other than a to z for those of another code.
    const mark = /^[\x00-\x7f]*$/.test(text) ? "" : "\ufeff";
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([mark + text], { type: "text/csv;charset=utf-8" }));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  section.querySelector(".previous").addEventListener("click", () => { page -= 1; draw(); });
  section.querySelector(".next").addEventListener("click", () => { page += 1; draw(); });
  section.querySelector(".download").addEventListener("click", () => download(shown, data.file));
  section.querySelector(".corrections")?.addEventListener("click", () => {
    download(reviewedSamples(), "corrections.csv");
    downloaded = true;
    keepReview();
  });
  if (data.review) {
    restoreReview();
    addEventListener("beforeunload", (event) => { if (!downloaded) event.preventDefault(); });
  }
  update();
}

document.querySelectorAll(".gallery").forEach(setUpGallery);

// On paper everything that is folded is open.
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.numbers)").forEach((fold) => { fold.open = true; }));
