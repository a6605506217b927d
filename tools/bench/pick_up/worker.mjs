// Workers that wait with the public JavaScript client, and pause as docker-worker did: reads options from stdin.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const PAUSE = 5000;

const { resolve } = createRequire(new URL("../../package.json", import.meta.url));
const { default: taskcluster } = await import(resolve("taskcluster-client"));

let text = "";
for await (const chunk of process.stdin) {
  text += chunk;
}
const { rootUrl, clientId, accessToken, taskQueueId, workers } = JSON.parse(text);

/** @param {string} workerId */
async function work(workerId) {
  const queue = new taskcluster.Queue({ rootUrl, credentials: { clientId, accessToken } });
  for (;;) {
    try {
      const { tasks } = await queue.claimWork(taskQueueId, { workerGroup: "bench", workerId, tasks: 1 });
      for (const { status, runId, credentials } of tasks) {
        console.log(workerId, status.taskId, Date.now() / 1000);
        await queue.use({ credentials }).reportCompleted(status.taskId, runId);
      }
      if (tasks.length > 0) {
        continue;
      }
    } catch (error) {
      console.error(error);
    }
    await sleep(PAUSE);
  }
}

await Promise.all(Array.from({ length: workers }, (_, number) => work(`javascript-${number}`)));
