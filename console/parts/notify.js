// A notification of the browser when something ends. The browser asks for leave only after a click.

import { html, useEffect, useState } from "../core/html.js";

/** @param {{wanted: boolean, want: (on: boolean) => void}} properties */
export function NotifyButton({ wanted, want }) {
  const [refused, setRefused] = useState(false);
  if (!("Notification" in globalThis)) return null;
  const ask = async () => {
    if (wanted) return want(false);
    const granted = (await Notification.requestPermission()) === "granted";
    setRefused(!granted);
    want(granted);
  };
  return html`<button type="button" class="notify" aria-pressed=${wanted} onClick=${ask}
      title="A notification of this browser, as long as this tab stays open, even behind others">${wanted ? "You will be notified" : "Notify me when it ends"}</button>
    ${refused && html`<span class="reason" role="status">This browser allows no notifications from here.</span>`}`;
}

/** Tell once that something which was open has ended. @param {boolean} wanted @param {boolean} ended
 * @param {() => {title: string, body: string, tag: string}} about @param {() => void} told */
export function useNotification(wanted, ended, about, told) {
  useEffect(() => {
    if (!wanted || !ended) return;
    const { title, ...options } = about();
    const notification = new Notification(title, options);
    notification.onclick = () => {
      window.focus();
      notification.close();
    };
    told();
  }, [wanted, ended]);
}
