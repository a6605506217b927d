// Something that is wrong with the service, and what to do about it.

import { html } from "../core/html.js";

/** @param {{finding: import("../core/types").Finding}} properties */
export const Finding = ({ finding: { code, message, remedy } }) => html`<li>
  <p>${message}${code === "task-queues-stalled" && html` <a href="/provisioners">Task queues</a>`}</p>
  <p class="reason">${remedy}</p>
</li>`;
