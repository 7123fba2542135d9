/** What operators of a server see, in the server's JSON. */

export interface ApiKey {
  id: string;
  name: string;
  scopes: string[];
  created: number;
  revoked: number | null;
  expires: number | null;
  used: number | null;
  user: string | null;
  models: string[] | null;
  policies: string[] | null;
}

export interface ApiKeys {
  keys: ApiKey[];
  /** Continues the list; null at its end. */
  next: number | null;
}

export interface ServerStatus {
  engines: number;
  max_engines: number;
  running_jobs: number;
  upstreams: Record<string, "answers" | "rests" | "fails" | "untried">;
  memory_bytes: number;
  cache_bytes: number;
}

export interface Job {
  tenant: string;
  kind: string;
  subject: string;
  due: number;
  worker: string;
  attempts: number;
  error: string;
}

export interface Jobs {
  jobs: Job[];
}

export interface Used {
  requests: number;
  tokens: number;
  dollars: number;
}

/** A limit has a name such as `tokens_per_day`; null is no limit. */
export type Limits = Record<string, number | null>;

export interface LimitsInUse {
  kind: "key" | "user";
  name: string;
  limits: Limits;
  used: Partial<Record<string, Used>>;
}

export interface LimitList {
  limits: LimitsInUse[];
  next: number | null;
  defaults: Record<"key" | "user", Limits>;
}
