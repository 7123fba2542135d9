/** Which optional parts of the inspector are on. */

import { useResource, type Resource } from "./resource";

export interface Features {
  sessions: boolean;
  /** Whether there are servers whose models can answer. */
  upstreams: boolean;
  /** Whether this key may ask them. */
  chat: boolean;
  /** The state of the server, and its jobs. */
  admin: boolean;
  keys: boolean;
  limits: boolean;
}

export function useFeatures(): Resource<Features> {
  return useResource<Features>("/features");
}
