// Who did what: read when it is opened, since most who look at a page do not ask.

import { html, useEffect, useState } from "../core/html.js";
import { gather, useNow } from "../core/polling.js";
import { to } from "../core/router.js";
import { Empty, Failure, Loading } from "./feedback.js";
import { Time } from "./states.js";
import { Table } from "./table.js";

const MOST = 5000;
const NOT_CONFIRMED = ", not confirmed";

/** @typedef {import("../core/types").AuditEntry} Entry */

/**
 * A part of a page that is closed at first.
 * @param {{read: import("../core/audit.js").Read, title?: string, who?: boolean}} properties `who`: whether it differs who did it
 */
export function AuditHistory({ read, title = "Who did what", who = true }) {
  const [open, setOpen] = useState(false);
  return html`<details class="audit" onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>${title}</summary>
    ${open && html`<${History} read=${read} title=${title} who=${who} />`}
  </details>`;
}

/** @param {{read: import("../core/audit.js").Read, title: string, who: boolean}} properties */
function History({ read, title, who }) {
  const [found, setFound] = useState(/** @type {{items: Entry[], more: boolean} | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [look, setLook] = useState(0);
  const now = useNow(30_000);
  useEffect(() => {
    const control = new AbortController();
    setError(null);
    gather(read({ signal: control.signal }), "auditHistory", MOST).then(
      setFound,
      (caught) => control.signal.aborted || setError(caught),
    );
    return () => control.abort();
  }, [look]);
  const again = () => setLook(look + 1);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<${Loading} label="Loading the history" />`;
  const columns = [
    {
      key: "when",
      title: "When",
      cell: (/** @type {Entry} */ entry) => html`<${Time} at=${entry.created} now=${now} />`,
    },
    ...(who
      ? [{ key: "who", title: "Who", cell: (/** @type {Entry} */ entry) => html`<${Who} id=${entry.clientId} />` }]
      : []),
    { key: "what", title: "What", cell: (/** @type {Entry} */ entry) => html`<${What} entry=${entry} />` },
    {
      key: "to",
      title: "To",
      class: "wide",
      cell: (/** @type {Entry} */ entry) => html`<${Subject} entry=${entry} />`,
    },
  ];
  return html`
    ${
      found.items.length === 0
        ? html`<${Empty}>Nothing, as far back as it is kept.<//>`
        : html`<${Table} rows=${found.items} columns=${columns} id=${keyOf} caption=${`${title}, latest first`} />`
    }
    ${found.more && html`<p class="reason">There are more than ${MOST.toLocaleString()}: the oldest are left out. <code>./dev admin audit</code> lists them all.</p>`}
    <div class="buttons"><button type="button" class="quiet" onClick=${again}>Look again</button></div>`;
}

/** @param {Entry} entry */
const keyOf = (entry) => `${entry.created} ${entry.clientId} ${entry.actionType} ${entry.entityType} ${entry.entityId}`;

/** @param {{id: string}} properties */
const Who = ({ id }) => (id === "anonymous" ? html`<span>anonymous</span>` : html`<a href=${to.client(id)}>${id}</a>`);

/** @param {{entry: Entry}} properties */
function What({ entry }) {
  const doubtful = entry.actionType.endsWith(NOT_CONFIRMED);
  const action = doubtful ? entry.actionType.slice(0, -NOT_CONFIRMED.length) : entry.actionType;
  return html`${action}${entry.detail ? ` ${entry.detail}` : ""}${
    doubtful &&
    html` <span class="tag" title="The call is under way, or ended without anybody knowing whether it had its effect">not confirmed</span>`
  }`;
}

/** @param {{entry: Entry}} properties */
function Subject({ entry: { entityType, entityId } }) {
  const href = addressOf(entityType, entityId);
  return html`${entityType.replace("-", " ")} ${href ? html`<a href=${href}>${entityId}</a>` : entityId}`;
}

/** @param {string} kind @param {string} id */
function addressOf(kind, id) {
  if (kind === "task") return to.task(id);
  if (kind === "task-group") return to.group(id);
  if (kind === "client") return to.client(id);
  if (kind === "role") return to.role(id);
  const [provisioner, workerType, group = "", worker = ""] = id.split("/");
  return kind === "worker" ? to.worker(`${provisioner}/${workerType}`, group, worker) : null;
}
