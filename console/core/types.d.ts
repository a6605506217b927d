// The shapes of the public API that the console reads (docs/contract.md, sections 2.3, 3.1, 4.1 and 8).

export type State = "unscheduled" | "pending" | "running" | "completed" | "failed" | "exception";
export type Priority = "highest" | "very-high" | "high" | "medium" | "low" | "very-low" | "lowest";

export interface Run {
  runId: number;
  state: Exclude<State, "unscheduled">;
  reasonCreated: string;
  reasonResolved?: string;
  scheduled: string;
  started?: string;
  resolved?: string;
  takenUntil?: string;
  workerGroup?: string;
  workerId?: string;
}

export interface Status {
  taskId: string;
  taskQueueId: string;
  provisionerId: string;
  workerType: string;
  schedulerId: string;
  projectId: string;
  taskGroupId: string;
  priority: Priority;
  deadline: string;
  expires: string;
  retriesLeft: number;
  state: State;
  runs: Run[];
}

export interface Definition {
  taskQueueId: string;
  schedulerId: string;
  projectId: string;
  taskGroupId: string;
  dependencies: string[];
  requires: "all-completed" | "all-resolved";
  routes: string[];
  priority: Priority;
  retries: number;
  created: string;
  deadline: string;
  expires: string;
  scopes: string[];
  payload: Record<string, any>;
  metadata: { name: string; description: string; owner: string; source: string };
  tags: Record<string, string>;
  extra: Record<string, any>;
  provisionerId?: string;
  workerType?: string;
}

export interface IndexedTask {
  namespace: string;
  taskId: string;
  rank: number;
  data: Record<string, unknown>;
  expires: string;
}

export interface Member {
  task: Definition;
  status: Status;
}

export interface Artifact {
  name: string;
  storageType: string;
  expires: string;
  contentType: string;
  contentLength?: number;
}

export interface GroupSummary {
  taskGroupId: string;
  schedulerId: string;
  expires: string;
  sealed?: string;
}

export interface RecentGroup extends GroupSummary {
  created: string;
  /** Of its first task, as `name`, `owner` and `source`; absent for a group of before that was noted. */
  taskId?: string;
  projectId?: string;
  /** Whether it has one task. */
  single: boolean;
  name: string;
  owner: string;
  source: string;
}

export interface Worker {
  workerGroup: string;
  workerId: string;
  firstClaim: string;
  lastDateActive?: string;
  latestTask?: { taskId: string; runId: number };
  quarantineUntil?: string;
}

export interface WorkerDetails extends Worker {
  taskQueueId: string;
  expires: string;
  recentTasks: { taskId: string; runId: number }[];
  quarantineDetails?: { updatedAt: string; clientId: string; quarantineUntil: string; quarantineInfo: string }[];
}

export interface Counts {
  taskQueueId: string;
  pendingTasks: number;
  claimedTasks: number;
}

/** Tasks wait in a task queue, and nothing takes them. */
export interface Stalled {
  reason: "no-worker" | "not-asked" | "quarantined";
  message: string;
}

export interface Load extends Counts {
  unresolvedTasks: number;
  waitingWorkers: { claimWork: number; pollTaskUrls: number };
  stalled?: Stalled;
}

export interface TaskQueueState extends Counts {
  workers: number;
  quarantinedWorkers: number;
  oldestPending?: string;
  lastDateActive?: string;
  description?: string;
  stalled?: Stalled;
}

export interface PendingTask {
  taskId: string;
  runId: number;
  task: Definition;
  inserted: string;
}

export interface ClaimedTask {
  taskId: string;
  runId: number;
  workerGroup: string;
  workerId: string;
  claimed: string;
  task: Definition;
}

export interface Client {
  clientId: string;
  description: string;
  expires: string;
  created: string;
  lastModified: string;
  lastDateUsed: string;
  lastRotated: string;
  deleteOnExpiration: boolean;
  scopes: string[];
  expandedScopes: string[];
  disabled: boolean;
  accessToken?: string;
}

export interface Role {
  roleId: string;
  scopes: string[];
  expandedScopes: string[];
  description: string;
  created: string;
  lastModified: string;
}

export interface Operations {
  queues: { queue: string; messages: number; poison: number }[];
  toldWorkers: { repeat: number; empty: number };
  expiryNoted?: string;
  expiredBefore?: string;
  reconcilerNoted?: string;
  waitingNoted?: string;
}

export interface PoisonMessage {
  messageId: string;
  put: string;
  readable: boolean;
  about: Record<string, unknown>;
}

export interface AuditEntry {
  clientId: string;
  /** What was done; ends with ", not confirmed" where nobody knows whether it happened. */
  actionType: string;
  created: string;
  entityId: string;
  entityType: string;
  detail?: string;
}

export interface Finding {
  code: string;
  severity: "warning" | "critical";
  message: string;
  remedy: string;
  /** What an operator would run. */
  command?: string;
}

export interface Credentials {
  clientId: string;
  accessToken: string;
  /** A certificate of temporary credentials: JSON as a string. */
  certificate?: string;
}

export interface Session extends Credentials {
  /** Milliseconds since the epoch, by the service's clock, after which the credentials are not used. */
  until: number;
  /** With what they are renewed, where the provider gave something. */
  renewal?:
    { provider: { issuer: string; clientId: string; scopes: string; name: string }; token?: string } | undefined;
}

export interface PageProperties {
  params: Record<string, string>;
  query: URLSearchParams;
}
