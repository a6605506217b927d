// One log: live while it grows, with colours, search, jumps to errors, and lines that can be linked. One that has ended in a
// failure opens at its error.

import { pushLabel } from "../core/group-name.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "../core/html.js";
import { causeIn, tellsOfError } from "../core/log-cause.js";
import { SHOWN_FROM_END } from "../core/log-source.js";
import { openArtifact, saveArtifact } from "../core/open-artifact.js";
import { usePolled } from "../core/polling.js";
import { task } from "../core/queue.js";
import { to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { counted, named } from "../core/words.js";
import { plain } from "../parts/ansi.js";
import { ActionButton, Failure, Loading } from "../parts/feedback.js";
import { Live } from "../parts/health.js";
import { useLogEnd } from "../parts/log-end.js";
import { LINE_HEIGHT, LogLines, usePlaces } from "../parts/log-lines.js";
import { Crumbs } from "../parts/tabs.js";

const FOLLOW_KEY = "taskcluster-queue.follow";
const WRAP_KEY = "taskcluster-queue.wrap";

/** @param {import("../core/types").PageProperties} properties */
export default function LogPage({ params }) {
  const { taskId = "", runId = "0", name: given = "" } = params;
  const name = artifactName(given);
  const about = usePolled((signal) => task(taskId, { signal }), [taskId], { until: () => true });
  const title = about.data ? named(about.data) : `Task ${taskId}`;
  useTitle(about.data && `${name} · ${title}`);
  const [attempt, setAttempt] = useState(0);
  const { state, error, reader } = useLogEnd({
    taskId,
    runId: Number(runId),
    name,
    keep: SHOWN_FROM_END,
    attempt,
  });
  const [range, setRange] = useState(rangeOf(location.hash));
  const [follow, setFollow] = useState(range === null && localStorage.getItem(FOLLOW_KEY) !== "no");
  const [wrap, setWrap] = useState(localStorage.getItem(WRAP_KEY) === "yes");
  const frame = useRef(/** @type {HTMLDivElement | null} */ (null));
  const placed = useRef(-1);
  const lines = state?.lines ?? [];
  const before = state ? state.before : 0;
  const search = useSearch(lines, range ? Math.max(0, range[1] - (before ?? 0)) : 0);
  const places = usePlaces(lines, frame, wrap);
  const jump = (/** @type {number} */ line) => {
    if (frame.current) frame.current.scrollTop = Math.max(0, places.top(line - 1) - frame.current.clientHeight / 3);
  };

  useLayoutEffect(() => {
    if (follow && frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  }, [follow, lines.length, error, places]);
  useLayoutEffect(() => {
    if (!range || before === null || !frame.current || placed.current === before) return;
    if (range[0] <= before || range[0] > before + lines.length) return;
    placed.current = before; // once, and again when lines above it have gone
    jump(range[0] - before);
  }, [lines.length > 0, before, state?.ended]);
  // Before it is painted: later it would take the place of a search that somebody has begun meanwhile.
  useLayoutEffect(() => {
    if (!state?.ended || range || search.text || !["failed", "exception"].includes(state.outcome)) return;
    const cause = causeIn(lines);
    if (cause.sure) search.show(cause.at + 1, show);
  }, [state?.ended]);

  const show = (/** @type {number} */ line) => {
    setFollow(false);
    jump(line);
  };
  const scrolled = () => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = frame.current ?? {};
    const atEnd = scrollTop + clientHeight >= scrollHeight - 2 * LINE_HEIGHT;
    if (atEnd !== follow && !state?.ended) setFollow(atEnd);
  };
  const choose = (/** @type {number} */ line, /** @type {boolean} */ extend) => {
    const next = /** @type {[number, number]} */ (
      extend && range ? [Math.min(range[0], line), Math.max(range[0], line)] : [line, line]
    );
    history.replaceState(history.state, "", `#L${next[0]}${next[1] === next[0] ? "" : `-${next[1]}`}`);
    setRange(next);
    setFollow(false);
  };
  const remember = (/** @type {string} */ key, /** @type {(on: boolean) => void} */ set, /** @type {boolean} */ on) => {
    localStorage.setItem(key, on ? "yes" : "no");
    set(on);
  };

  return html`<article class="log-page">
    <header>
      <${Crumbs} of=${[
        ...(about.data ? [{ title: pushLabel(about.data.metadata.source) ?? "Task group", href: to.group(about.data.taskGroupId) }] : []), // prettier-ignore
        { title, href: to.task(taskId) },
        { title: `Run ${runId}`, href: to.task(taskId, runId) },
      ]} />
      <h1>${title}, run ${runId} <code class="reason">${name}</code></h1>
      <div class="buttons">
        <input type="search" aria-label="Search in the log" placeholder="Search" value=${search.text}
          onInput=${(/** @type {any} */ event) => search.setText(event.target.value)}
          onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && search.next(event.shiftKey ? -1 : 1, show)} />
        ${
          search.text &&
          html`<span role="status">${search.position} of ${search.found.length}</span>
          <button type="button" onClick=${() => search.next(-1, show)}>Previous</button>
          <button type="button" onClick=${() => search.next(1, show)}>Next</button>`
        }
        <button type="button" class="primary" onClick=${() => search.nextError(show)}>Next error</button>
        <label><input type="checkbox" checked=${follow} onChange=${() => remember(FOLLOW_KEY, setFollow, !follow)} /> Follow</label>
        <label><input type="checkbox" checked=${wrap} onChange=${() => remember(WRAP_KEY, setWrap, !wrap)} /> Wrap</label>
        <span class="reason apart" role="status">${state && `${counted((before ?? 0) + lines.length, "line")}${before === null ? " at the end" : ""}`}</span>
        ${state && !state.ended && html`<${Live} reader=${reader} />`}
        <${ActionButton} action=${() => saveArtifact(taskId, runId, name)}>Download<//>
        <${ActionButton} action=${() => openArtifact(taskId, runId, name)}>Raw log<//>
      </div>
      ${state?.cut && html`<p class="notice">${state.cut} Download it for all of it.</p>`}
      ${before === null && html`<p class="notice">The log is long: only its end was read, so its lines have no numbers${range && ", and those of the link cannot be found"}. Open the raw log for all of it.</p>`}
      ${before !== null && before > 0 && html`<p class="notice">The log is long: shown is its end, from line ${(before + 1).toLocaleString()} on. Open the raw log for all of it.</p>`}
    </header>
    ${error && html`<${Failure} error=${error} retry=${() => setAttempt(attempt + 1)} />`}
    ${!state && !error && html`<${Loading} label="Loading the log" />`}
    ${state && html`<${LogLines} label="Log" frame=${frame} lines=${lines} before=${before} range=${range} marked=${search.current} places=${places} wrap=${wrap} choose=${choose} scrolled=${scrolled} />`}
  </article>`;
}

/** Where a text occurs, and which of these places is the current one. @param {string[]} lines
 * @param {number} from the line after which the first error is looked for */
function useSearch(lines, from) {
  const [text, setText] = useState("");
  const [current, setCurrent] = useState(0);
  const wanted = text.toLowerCase();
  const found = useMemo(
    () =>
      wanted ? lines.flatMap((line, index) => (plain(line).toLowerCase().includes(wanted) ? [index + 1] : [])) : [],
    [wanted, lines.length],
  );
  const go = (/** @type {number | undefined} */ line, /** @type {(line: number) => void} */ show) => {
    if (line === undefined) return;
    setCurrent(line);
    show(line);
  };
  return {
    text,
    setText: (/** @type {string} */ value) => {
      setText(value);
      setCurrent(0);
    },
    found,
    current,
    position: found.indexOf(current) + 1,
    show: go,
    next: (/** @type {1 | -1} */ step, /** @type {(line: number) => void} */ show) => {
      const beyond = step === 1 ? found.find((line) => line > current) : found.findLast((line) => line < current);
      go(beyond ?? (step === 1 ? found[0] : found.at(-1)), show);
    },
    nextError: (/** @type {(line: number) => void} */ show) => {
      const after = lines.findIndex((line, index) => index >= (current || from) && tellsOfError(line));
      go((after >= 0 ? after : lines.findIndex(tellsOfError)) + 1 || undefined, show);
    },
  };
}

/** The name of an artifact; old links hold its whole URL. @param {string} given */
function artifactName(given) {
  if (!/^https?:\/\//.test(given)) return given;
  const [, name] = /\/artifacts\/(.+?)(?:\?|$)/.exec(given) ?? [];
  return name ? decodeURIComponent(name) : given;
}

/** @param {string} hash @returns {[number, number] | null} */
function rangeOf(hash) {
  const match = /^#L(\d+)(?:-L?(\d+))?$/.exec(hash);
  if (!match) return null;
  const first = Number(match[1]);
  return [first, Math.max(first, Number(match[2] ?? first))];
}
