// A task's life with the public JavaScript client: reads options from stdin, writes what each step answered.
import { Writable } from "node:stream";

import { createRequire } from "node:module";

const { resolve } = createRequire(new URL("../../../tools/package.json", import.meta.url));
const { default: taskcluster } = await import(resolve("taskcluster-client"));

let text = "";
for await (const chunk of process.stdin) {
  text += chunk;
}
const { options, taskId, task, names, artifact } = JSON.parse(text);
const queue = new taskcluster.Queue(options);
const answers = {};

answers.created = await queue.createTask(taskId, task);
const { tasks } = await queue.claimWork(task.taskQueueId, { workerGroup: "g", workerId: "w", tasks: 4 });
answers.claims = tasks;
answers.reclaimed = await queue.use({ credentials: tasks[0].credentials }).reclaimTask(taskId, 0);
const worker = queue.use({ credentials: answers.reclaimed.credentials });
for (const name of names) {
  const { putUrl } = await worker.createArtifact(taskId, 0, name, artifact);
  const body = name.padEnd(artifact.contentLength);
  const put = await fetch(putUrl, { method: "PUT", headers: { "content-type": artifact.contentType }, body });
  if (!put.ok) {
    throw new Error(`${put.status}: ${await put.text()}`);
  }
}
answers.completed = await worker.reportCompleted(taskId, 0);
answers.status = await queue.status(taskId);
answers.task = await queue.task(taskId);

answers.contents = {};
for (const name of names) {
  const chunks = [];
  const streamFactory = () => {
    chunks.length = 0;
    return new Writable({
      write(chunk, _encoding, done) {
        chunks.push(chunk);
        done();
      },
    });
  };
  const contentType = await taskcluster.downloadArtifact({ taskId, name, queue, streamFactory });
  answers.contents[name] = [contentType, Buffer.concat(chunks).toString().trimEnd()];
}

answers.pages = [];
for (let continuationToken; ;) {
  const query = continuationToken ? { limit: 2, continuationToken } : { limit: 2 };
  const page = await queue.listLatestArtifacts(taskId, query);
  answers.pages.push(page.artifacts.map(({ name }) => name));
  continuationToken = page.continuationToken;
  if (!continuationToken) {
    break;
  }
}
const bindings = new taskcluster.QueueEvents(options).taskCompleted({ taskId });
answers.binding = [bindings.exchange, bindings.routingKeyPattern];
process.stdout.write(JSON.stringify(answers));
