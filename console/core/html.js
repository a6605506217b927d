// Preact bound to htm's tagged templates: components without a build step.

import htm from "htm";
import { h } from "preact";

export { Fragment, render } from "preact";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
