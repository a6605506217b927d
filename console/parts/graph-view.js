// Which part of a drawing is in view: moved and zoomed by pointers, wheel and keys.

import { useEffect, useRef, useState } from "../core/html.js";

/** @typedef {{x: number, y: number, width: number, height: number}} View */
/** @typedef {{x: number, y: number}} Point */

const MARGIN = 20;
/** Pixels for each unit of the drawing. Below this nobody can read its text: a part is shown at first, not the whole. */
const LEGIBLE = 0.55;
const COMFORTABLE = 0.9;
/** Pixels within which a pressed pointer may tremble and still click. */
const TREMBLE = 5;

/** The whole of a drawing. @param {{width: number, height: number}} drawing @returns {View} */
const wholeOf = (drawing) => ({
  x: -MARGIN,
  y: -MARGIN,
  width: drawing.width + 2 * MARGIN,
  height: drawing.height + 2 * MARGIN,
});

/** What is shown at first: the whole if one can read it, else the part around a point.
 * @param {{width: number, height: number}} drawing @param {Point} center
 * @param {{width: number, height: number}} frame in pixels @returns {View} */
export function firstView(drawing, center, frame) {
  const whole = wholeOf(drawing);
  if (Math.min(frame.width / whole.width, frame.height / whole.height) >= LEGIBLE) return whole;
  return around(center, { width: frame.width / COMFORTABLE, height: frame.height / COMFORTABLE }, whole);
}

/** A part of a given size around a point, and no farther out than where the drawing ends. @param {Point} center
 * @param {{width: number, height: number}} size @param {View} whole @returns {View} */
function around({ x, y }, { width, height }, whole) {
  const within = (/** @type {number} */ wanted, /** @type {number} */ first, /** @type {number} */ last) =>
    Math.max(first, Math.min(wanted, last));
  return {
    x: within(x - width / 2, whole.x, Math.max(whole.x, whole.x + whole.width - width)),
    y: within(y - height / 2, whole.y, Math.max(whole.y, whole.y + whole.height - height)),
    width,
    height,
  };
}

/** @param {{width: number, height: number} | null} drawing @param {() => Point} center of what is most worth seeing */
export function useView(drawing, center) {
  const [view, setView] = useState(/** @type {View | null} */ (null));
  const pointers = useRef(/** @type {Map<number, Point>} */ (new Map()));
  const pressed = useRef(/** @type {Point | null} */ (null));
  const dragged = useRef(false);
  useEffect(() => {
    if (drawing && !view) setView(firstView(drawing, center(), frameOf(document.documentElement)));
  }, [drawing]);
  const reset = () => drawing && setView(wholeOf(drawing));
  const zoom = (/** @type {number} */ factor) => setView((v) => v && zoomed(v, factor));
  const move = (/** @type {number} */ dx, /** @type {number} */ dy) =>
    setView((v) => v && { ...v, x: v.x + dx, y: v.y + dy });
  const show = (/** @type {Point} */ at) =>
    drawing && setView(around(at, scaledTo(frameOf(document.documentElement), COMFORTABLE), wholeOf(drawing)));

  const follow = (/** @type {PointerEvent} */ event) => {
    const before = pointers.current.get(event.pointerId);
    if (!before || !view) return;
    const now = { x: event.clientX, y: event.clientY };
    const [other] = [...pointers.current].flatMap(([id, point]) => (id === event.pointerId ? [] : [point]));
    pointers.current.set(event.pointerId, now);
    if (pressed.current && apart(pressed.current, now) > TREMBLE) dragged.current = true;
    if (other) return zoom(apart(before, other) / Math.max(apart(now, other), 1));
    const size = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    const unit = Math.max(view.width / size.width, view.height / size.height);
    move((before.x - now.x) * unit, (before.y - now.y) * unit);
  };
  const lift = (/** @type {PointerEvent} */ event) => void pointers.current.delete(event.pointerId);
  const handlers = {
    onWheel: (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.15 : 0.87);
    },
    onPointerDown: (/** @type {PointerEvent} */ event) => {
      pressed.current = { x: event.clientX, y: event.clientY };
      dragged.current = false;
      pointers.current.set(event.pointerId, pressed.current);
    },
    onPointerMove: follow,
    onPointerUp: lift,
    onPointerCancel: lift,
    onPointerLeave: lift,
    // The browser would carry the link away that lies under the pointer.
    onDragStart: (/** @type {Event} */ event) => event.preventDefault(),
    // Where a drag ends, nothing is opened.
    onClickCapture: (/** @type {MouseEvent} */ event) => {
      if (!dragged.current) return;
      event.preventDefault();
      event.stopPropagation();
    },
    onKeyDown: (/** @type {KeyboardEvent} */ event) => {
      if (!view) return;
      const [across, down] = [view.width / 10, view.height / 10];
      /** @type {Record<string, () => void>} */
      const keys = {
        ArrowLeft: () => move(-across, 0),
        ArrowRight: () => move(across, 0),
        ArrowUp: () => move(0, -down),
        ArrowDown: () => move(0, down),
        "+": () => zoom(0.8),
        "-": () => zoom(1.25),
        0: () => reset(),
      };
      const action = keys[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    },
  };
  return { view, handlers, zoom, reset, show };
}

/** @param {View} view @param {number} factor @returns {View} */
const zoomed = ({ x, y, width, height }, factor) => ({
  x: x + (width * (1 - factor)) / 2,
  y: y + (height * (1 - factor)) / 2,
  width: width * factor,
  height: height * factor,
});

/** The size of the graph on the page, before it is there (style.css). @param {Element} page */
const frameOf = (page) => ({ width: Math.min(page.clientWidth - 32, 1328), height: page.clientHeight * 0.7 });

/** @param {{width: number, height: number}} size @param {number} scale */
const scaledTo = ({ width, height }, scale) => ({ width: width / scale, height: height / scale });

/** @param {Point} a @param {Point} b */
const apart = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);
