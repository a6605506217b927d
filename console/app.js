// The console: a frame around the page that the address names.

import { html, render, useEffect, useState } from "./core/html.js";
import { announce, hasEnded, isRefused, onChange, session } from "./core/credentials.js";
import { askWhileUsed } from "./core/live.js";
import { keepSignedIn } from "./core/renewal.js";
import { followLink, onLeaving, onNavigation, resolve } from "./core/router.js";
import { forgetSuggestions } from "./core/suggestions.js";
import { showTimes, THEME_KEY, TIMES, timesShown } from "./core/time.js";
import { closedBy, onClosed, pageBegins } from "./core/visitor.js";
import { PAGES } from "./pages.js";
import { Controls } from "./parts/controls.js";
import { Ended } from "./parts/ended.js";
import { Dialog, Failure, Loading } from "./parts/feedback.js";
import { AsOf, Silence } from "./parts/health.js";
import { SearchBox } from "./parts/search-box.js";
import { Welcome } from "./parts/welcome.js";

const RELOADED_KEY = "taskcluster-queue.reloaded";
const LOOKS_APART = 1000;
/** A page that is served, and whose parts fail all the same, is not loaded again and again. */
const RELOADS_APART = 60_000;
/** Pages that say by themselves how to sign in. */
const SIGNING_IN = ["signin", "callback", "client-create"];
const NAVIGATION = /** @type {const} */ ([
  ["/", "Home"],
  ["/provisioners", "Task queues"],
  ["/tasks/index", "Index"],
  ["/auth/clients", "Clients"],
  ["/tasks/create", "Create a task"],
]);

function App() {
  const [, setVersion] = useState(0);
  const [page, setPage] = useState(/** @type {{key: string, component: any} | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const path = location.pathname;
  const found = resolve(path);
  useEffect(() => {
    const update = () => setVersion((version) => version + 1);
    let [shownPath, who] = [location.pathname, session()?.clientId];
    const navigated = () => {
      if (location.pathname !== shownPath) pageBegins();
      shownPath = location.pathname;
      update();
    };
    const changed = () => {
      if (session()?.clientId !== who) pageBegins();
      who = session()?.clientId;
      update();
    };
    const ends = [onNavigation(navigated), onClosed(update), onChange(changed)];
    return () => ends.forEach((end) => end());
  }, []);
  useEffect(() => {
    if (!found) return undefined;
    let left = false; // what is loaded after one has gone on to another page must not take its place
    setError(null);
    document.title = "Taskcluster Queue";
    PAGES[found.page]().then(
      ({ default: component }) => left || setPage({ key: found.key, component }),
      (caught) => left || (setError(caught), reloadWhenServed()),
    );
    return () => void (left = true);
  }, [found?.key]);
  const shown = found && page?.key === found.key ? page.component : null;
  const signsIn = SIGNING_IN.includes(found?.page ?? "");
  const refusal = signsIn ? "" : closedBy();
  return html`
    <a class="skip" href="#content" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <nav aria-label="Console"><a class="brand" href="/" aria-label="Taskcluster Queue"><${Mark} /></a>${NAVIGATION.map(([href, title]) => html`<a key=${href} href=${href} aria-current=${isCurrent(href, path) ? "page" : undefined}>${title}</a>`)}</nav>
      <span class="who"><${AsOf} /><${Find} /><${Who} /><${Controls} title="View"><span class="view"><${Settings} /></span><//></span>
    </header>
    <main id="content" tabindex="-1">
      <${Silence} />
      ${error && html`<${Failure} error=${error} retry=${() => location.reload()} />`}
      ${!found && html`<article><h1>There is no such page</h1><p><a href="/">Go to the first page</a></p></article>`}
      ${found && !shown && !error && html`<${Loading} />`}
      ${shown && refusal && html`<${Welcome} refusal=${refusal} then=${location.pathname + location.search + location.hash} />`}
      ${shown && !refusal && html`<${shown} key=${session()?.clientId ?? ""} params=${found?.params} query=${new URLSearchParams(location.search)} />`}
    </main>
    ${!signsIn && hasEnded() && html`<${Ended} key=${session()?.until} />`}
    <${Leaving} />`;
}

/** The mark of the product: a queue of tasks, the first of which is done. */
const Mark = () =>
  html`<svg viewBox="0 0 26 20" width="26" height="20" aria-hidden="true"><rect class="completed" x="0" y="3" width="14" height="14" rx="3" /><path d="M3.5 10l2.5 2.6 4.6-5" fill="none" stroke="#fff" stroke-width="2" /><rect class="running" x="16" y="3" width="4" height="14" rx="1.5" /><rect class="unscheduled" x="22" y="3" width="4" height="14" rx="1.5" /></svg>`;

/** Asks before a page with something unsaved is left. */
function Leaving() {
  const [leaves, setLeaves] = useState(/** @type {{go: () => void} | null} */ (null));
  useEffect(() => onLeaving((go) => setLeaves({ go })), []);
  const close = () => setLeaves(null);
  const leave = () => {
    close();
    leaves?.go();
  };
  return (
    leaves &&
    html`<${Dialog} title="Leave without saving?" close=${close}><p>What you have changed on this page is not saved.</p>
      <div class="buttons"><button type="button" class="primary" onClick=${close}>Stay</button><button type="button" onClick=${leave}>Leave without saving</button></div><//>`
  );
}

/** The search, on every page: by a button or by a slash. */
function Find() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      event.preventDefault();
      const here = /** @type {HTMLInputElement | null} */ (document.querySelector("main form.search input"));
      if (here) here.focus();
      else setOpen(true);
    };
    addEventListener("keydown", onKey);
    const end = onChange(forgetSuggestions);
    return () => {
      removeEventListener("keydown", onKey);
      end();
    };
  }, []);
  const close = () => setOpen(false);
  return html`<button type="button" class="quiet" aria-keyshortcuts="/" title="Find (/)" onClick=${() => setOpen(true)}>Find</button>
    ${open && html`<${Dialog} title="Find" close=${close}><${SearchBox} then=${close} focused=${true} /><div class="buttons"><button type="button" onClick=${close}>Close</button></div><//>`}`;
}

/** @param {EventTarget | null} target */
const isTyping = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Load the page anew as soon as it is served: its parts have other addresses after a deployment, and none in an outage. */
function reloadWhenServed() {
  const last = Number(sessionStorage.getItem(RELOADED_KEY) ?? 0);
  const pause = Date.now() - last < RELOADS_APART ? RELOADS_APART : LOOKS_APART;
  const look = async () => {
    const answer = await fetch(location.pathname, { cache: "no-store", credentials: "omit" }).catch(() => null);
    if (!answer?.ok) return void setTimeout(look, LOOKS_APART);
    sessionStorage.setItem(RELOADED_KEY, String(Date.now()));
    location.reload();
  };
  setTimeout(look, pause);
}

function Who() {
  const current = session();
  if (!current)
    return html`<a href=${`/login?then=${encodeURIComponent(location.pathname + location.search)}`}>Sign in</a>`;
  const state = isRefused() ? ": not accepted" : hasEnded() ? ": sign-in ended" : "";
  return html`<a href="/profile" title=${current.clientId}>${current.clientId}${state}</a>`;
}

/** How times and colours are shown. */
function Settings() {
  const [theme, setTheme] = useState(document.documentElement.dataset["theme"] ?? "");
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const toggle = () => {
    const next = dark ? "light" : "dark";
    localStorage.setItem(THEME_KEY, next);
    document.documentElement.dataset["theme"] = next;
    setTheme(next);
  };
  return html`<select class="times" aria-label="Times" title="How times are shown" value=${timesShown()} onChange=${(/** @type {any} */ event) => showTimes(event.target.value)}>${Object.entries(TIMES).map(([style, title]) => html`<option key=${style} value=${style}>${title}</option>`)}</select>
    <button type="button" class="quiet" onClick=${toggle}>${dark ? "Light" : "Dark"}</button>`;
}

/** @param {string} href @param {string} path */
const isCurrent = (href, path) =>
  href === "/" ? path === "/" : path.startsWith(href.replace(/^\/auth\/.*/, "/auth/"));

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

const theme = localStorage.getItem(THEME_KEY);
if (theme) document.documentElement.dataset["theme"] = theme;
document.addEventListener("click", followLink);
const frame = /** @type {HTMLElement} */ (document.getElementById("app"));
frame.replaceChildren();
// In a frame there is nothing but the answer to a silent sign-in, for the page around it (core/openid.js).
if (globalThis.parent !== window)
  globalThis.parent.postMessage((location.hash || location.search).slice(1), location.origin);
else {
  keepSignedIn();
  askWhileUsed();
  announce();
  render(html`<${App} />`, frame);
}
