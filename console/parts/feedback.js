// What a page shows while it waits, when something failed, and when there is nothing to show.

import { html, useEffect, useRef, useState } from "../core/html.js";
import { session } from "../core/credentials.js";
import { isSilence } from "../core/live.js";

/** @param {{label?: string}} properties */
export const Loading = ({ label = "Loading" }) =>
  html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${label} …</p>`;

/** @param {{children?: any}} properties */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** An error with what to do about it. @param {{error: Error & {status?: number}, retry?: () => void}} properties */
export function Failure({ error, retry }) {
  return html`<div class="notice critical" role="alert">
    <p class="said">${error.message}</p>
    <p>${remedy(error)}</p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** @param {Error & {status?: number}} error */
function remedy({ status }) {
  if (status === 401) return html`The credentials are not accepted. <a href="/login">Sign in again</a>.`;
  if (status === 403 && !session()) return html`This needs credentials. <a href="/login">Sign in</a>.`;
  if (status === 403)
    return html`Your credentials lack a scope. <a href="/profile">See what you may do</a>, or ask who gave them to you.`;
  if (status === 400) return "Something in the address is not a valid id.";
  if (status === 404) return "It may have expired, or the address is mistyped.";
  if (status === 409) return "It has changed in the meantime. The page shows its present state.";
  if (status === 0 || (status ?? 0) >= 500) return "This may be temporary; it is tried again automatically.";
  return "";
}

/** What is loaded, or why it is not; that there is no answer is said above the page. @param {{of: import("../core/polling.js").Polled<any>, children: (data: any) => any, label?: string}} properties */
export function Loaded({ of: { data, error, refresh }, children, label }) {
  return html`${error && !(data !== undefined && isSilence(error)) && html`<${Failure} error=${error} retry=${refresh} />`}
  ${data === undefined ? !error && html`<${Loading} ...${label ? { label } : {}} />` : children(data)}`;
}

/** A button that does something that may fail, and says how it went. @param {{action: () => Promise<unknown>,
 * children?: any, confirm?: string, verb?: any, disabled?: boolean, title?: string, kind?: string}} properties
 * `confirm` is what comes of it, where that is asked about first; `verb` what is done to what: the question's title,
 * and its answer */
export function ActionButton({ action, children, confirm, verb, disabled = false, title, kind = "" }) {
  const [state, setState] = useState(/** @type {{busy: boolean, error?: Error}} */ ({ busy: false }));
  const [asking, setAsking] = useState(false);
  const shown = useRef(true);
  useEffect(() => () => void (shown.current = false), []);
  const run = async () => {
    setAsking(false);
    setState({ busy: true });
    try {
      await action();
      if (shown.current) setState({ busy: false });
    } catch (error) {
      if (shown.current) setState({ busy: false, error: error instanceof Error ? error : new Error(String(error)) });
    }
  };
  return html`<span class="action">
    <button type="button" class=${kind} title=${title} disabled=${disabled || state.busy} aria-busy=${state.busy}
      onClick=${() => (confirm ? setAsking(true) : void run())}>${children}${state.busy ? " …" : ""}</button>
    ${asking && html`<${Confirm} outcome=${confirm} verb=${verb} danger=${kind === "danger"} yes=${() => void run()} no=${() => setAsking(false)} />`}
    ${state.error && html`<span class="action-error" role="alert">${state.error.message}</span>`}
  </span>`;
}

/** A question before something that cannot be undone: its title and its answer are what is done.
 * @param {{outcome?: any, verb: any, danger: boolean, yes: () => void, no: () => void}} properties */
function Confirm({ outcome, verb, danger, yes, no }) {
  return html`<${Dialog} title=${verb} close=${no}>
    <div>${outcome}</div>
    <div class="buttons">
      <button type="button" class=${danger ? "danger" : "primary"} onClick=${yes}>${verb}</button>
      <button type="button" onClick=${no}>Go back</button>
    </div>
  <//>`;
}

/** A modal dialog; Escape closes it. @param {{title: string, close: () => void, children?: any}} properties */
export function Dialog({ title, close, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const onClose = () => {
    if (element.current) close(); // one that has gone tells of it a frame later, when another may be open in its place
  };
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

/** A button that copies a text. @param {{text: string, label?: string}} properties */
export function Copy({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<button type="button" class="quiet" title=${`Copy ${text}`} onClick=${copy}>${copied ? "Copied" : label}</button>`;
}
