// The form of a role or a client. What one has written stays while the page reads again, and what others have changed in the
// meantime is shown before it is overwritten.

import { expandScopes } from "../core/auth.js";
import { html, useEffect, useLayoutEffect, useState } from "../core/html.js";
import { useUnsaved } from "../core/router.js";
import { ActionButton, Dialog, Empty, Loading } from "./feedback.js";
import { ScopesDifference, ScopesField, scopesOf } from "./scopes.js";

/** @typedef {{description: string, scopes: string[], expandedScopes: string[], lastModified: string}} Entity */
/** @typedef {{description: string, scopes: string[]}} Written */

/** @param {{present: Entity, save: (written: Written, read: string) => Promise<unknown>, refresh: () => void, fixed?:
 * boolean, creates?: string, ready?: boolean, children?: any}} properties `save` is refused if the entity is not as it was
 * when `read`; `fixed`: nothing can be changed; `creates`: what is created, once the rest of the form is `ready` */
export function Editing({ present, save, refresh, fixed = false, creates = "", ready = true, children }) {
  const what = creates ? `Create ${creates}` : "Save the changes";
  const [base, setBase] = useState(present);
  const [description, setDescription] = useState(present.description);
  const [text, setText] = useState(present.scopes.join("\n"));
  const [asking, setAsking] = useState(false);
  const written = { description, scopes: scopesOf(text) };
  const dirty = differs(written, base);
  const isOvertaken = present.lastModified !== base.lastModified && differs(present, base);
  useUnsaved(dirty);
  const adopt = () => {
    setBase(present);
    setDescription(present.description);
    setText(present.scopes.join("\n"));
  };
  // Before anything can be typed into what was drawn: an effect that ran later would not know of it.
  useLayoutEffect(() => {
    if (!dirty || !differs(present, written)) adopt();
    else if (!isOvertaken) setBase(present);
  }, [present.lastModified]);
  const submit = async () => {
    try {
      await save(written, base.lastModified);
      setBase({ ...base, ...written });
      setAsking(false);
    } catch (error) {
      if (!creates && /** @type {any} */ (error).status === 409) setAsking(false);
      throw error;
    } finally {
      refresh(); // also shows what others have saved, if that was the reason of a refusal
    }
  };
  return html`<div class="form">
    ${
      dirty &&
      isOvertaken &&
      html`<div class="notice warning" role="alert"><p><strong>Somebody else has saved a change since you opened this page.</strong> What they changed:</p>
      <${Difference} from=${base} to=${present} />
      <div class="buttons"><button type="button" onClick=${adopt}>Take theirs</button><button type="button" onClick=${() => setBase(present)}>Keep mine</button></div></div>`
    }
    <label>Description<textarea rows="3" readonly=${fixed} value=${description} onInput=${(/** @type {any} */ event) => setDescription(event.target.value)}></textarea></label>
    <${ScopesField} value=${text} change=${setText} readOnly=${fixed} />
    <div class="buttons">
      ${!fixed && html`<${ActionButton} kind="primary" disabled=${creates ? !ready : !dirty || isOvertaken} title=${dirty || creates ? "" : "Nothing has been changed"} action=${async () => setAsking(true)}>${creates ? "Create" : "Save"}<//>`}
      ${children}
    </div>
    ${
      asking &&
      html`<${Dialog} title=${`${what}?`} close=${() => setAsking(false)}>
      <${Difference} from=${base} to=${written} />
      <${Granted} from=${base} to=${written} />
      <div class="buttons"><${ActionButton} kind="primary" action=${submit}>${what}<//><button type="button" onClick=${() => setAsking(false)}>Go back</button></div><//>`
    }
  </div>`;
}

/** @param {Written} one @param {Written} other */
const differs = (one, other) =>
  one.description !== other.description || [...one.scopes].sort().join("\n") !== [...other.scopes].sort().join("\n");

/** @param {{from: Written, to: Written}} properties */
const Difference = ({ from, to }) =>
  html`${from.description !== to.description && html`<p>The description becomes: ${to.description || html`<em>empty</em>`}</p>`}
    <${ScopesDifference} from=${from.scopes} to=${to.scopes} />`;

/** What changes once roles are followed. @param {{from: Entity, to: Written}} properties */
function Granted({ from, to }) {
  const [expanded, setExpanded] = useState(/** @type {string[] | null} */ (null));
  const [error, setError] = useState("");
  useEffect(() => {
    expandScopes(to.scopes).then(setExpanded, (caught) => setError(caught.message));
  }, []);
  const had = from.expandedScopes;
  const own = had.filter(
    (scope) => scope.startsWith("assume:") && !expanded?.includes(scope) && !from.scopes.includes(scope),
  );
  return html`<h3>What it allows, with all roles that it leads to</h3>
    ${error ? html`<${Empty}>That cannot be told: ${error}<//>` : expanded ? html`<${ScopesDifference} from=${had.filter((scope) => !own.includes(scope))} to=${expanded} />` : html`<${Loading} label="Following the roles" />`}`;
}
