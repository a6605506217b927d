// Who did what: read when it is opened, since most who look at a page do not ask.

import { html, useEffect, useRef, useState } from "../core/html.js";
import { useNow } from "../core/polling.js";
import { to } from "../core/router.js";
import { named } from "../core/words.js";
import { Empty, Failure, Loading } from "./feedback.js";
import { Time } from "./states.js";
import { columnOf, Table } from "./table.js";

const NOT_CONFIRMED = ", not confirmed";

/** @typedef {import("../core/types").AuditEntry} Entry */
/** @typedef {import("../core/types").Member} Member */

/** A part of a page that is closed at first. @param {{read: import("../core/audit.js").Read, title?: string, who?:
 * boolean, members?: Member[]}} properties `who`: whether it differs who did it; `members`: tasks whose names are known
 */
export function AuditHistory({ read, title = "Who did what", who = true, members = [] }) {
  const [open, setOpen] = useState(false);
  return html`<details class="audit" onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>${title}</summary>
    ${open && html`<${History} read=${read} title=${title} who=${who} members=${members} />`}
  </details>`;
}

const column = /** @type {import("./table.js").ColumnOf<Entry>} */ (columnOf);

/** @param {{read: import("../core/audit.js").Read, title: string, who?: boolean, members?: Member[]}} properties */
export function History({ read, title, who = true, members = [] }) {
  const [found, setFound] = useState(/** @type {{items: Entry[], more: boolean} | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [look, setLook] = useState(0);
  const pages = useRef(/** @type {AsyncGenerator<any> | null} */ (null));
  const now = useNow(30_000);
  const older = async () => {
    const { value } = (await pages.current?.next()) ?? {};
    const more = value?.continuationToken !== undefined;
    setFound((old) => ({ items: [...(old?.items ?? []), ...(value?.auditHistory ?? [])], more }));
  };
  useEffect(() => {
    const control = new AbortController();
    pages.current = read({ signal: control.signal });
    setError(null);
    setFound(null);
    older().catch((caught) => control.signal.aborted || setError(caught));
    return () => control.abort();
  }, [look]);
  const again = () => setLook(look + 1);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<${Loading} label="Loading the history" />`;
  const names = new Map(members.map(({ task, status }) => [status.taskId, named(task)]));
  const columns = [
    column("when", "When", ({ created }) => html`<${Time} at=${created} now=${now} />`),
    ...(who ? [column("who", "Who", ({ clientId }) => html`<${Who} id=${clientId} />`)] : []),
    column("what", "What", (entry) => html`<${What} entry=${entry} />`),
    column("to", "To", (entry) => html`<${Subject} entry=${entry} names=${names} />`, { class: "wide" }),
    column("detail", "Changed", ({ detail }) => detail && html`<span class="wrapped">${detail}</span>`, {
      class: "wide",
    }),
  ];
  return html`
    ${
      found.items.length === 0
        ? html`<${Empty}>No entries, as far back as they are kept.<//>`
        : html`<${Table} rows=${found.items} columns=${columns} id=${keyOf} caption=${`${title}, latest first`} />`
    }
    <div class="buttons">${found.more && html`<button type="button" onClick=${() => void older().catch(setError)}>Older entries</button>`}<button type="button" class="quiet" onClick=${again}>Look again</button></div>`;
}

/** @param {Entry} entry */
const keyOf = (entry) => `${entry.created} ${entry.clientId} ${entry.actionType} ${entry.entityType} ${entry.entityId}`;

/** @param {{id: string}} properties */
const Who = ({ id }) => (id === "anonymous" ? html`<span>anonymous</span>` : html`<a href=${to.client(id)}>${id}</a>`);

/** @param {{entry: Entry}} properties */
function What({ entry: { actionType } }) {
  const doubtful = actionType.endsWith(NOT_CONFIRMED);
  return html`${doubtful ? actionType.slice(0, -NOT_CONFIRMED.length) : actionType}${doubtful && html` <span class="tag" title="The call is under way, or ended without anybody knowing whether it had its effect">not confirmed</span>`}`;
}

/** @param {{entry: Entry, names: Map<string, string>}} properties */
function Subject({ entry: { entityType, entityId }, names }) {
  const href = addressOf(entityType, entityId);
  const name = names.get(entityType === "task" ? entityId : "") ?? entityId;
  return html`<span>${entityType.replace("-", " ")} ${href ? html`<a href=${href} title=${entityId}>${name}</a>` : name}</span>`;
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
