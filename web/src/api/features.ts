/** Which optional parts of the inspector are on. */

import { useResource, type Resource } from "./resource";

export interface Features {
  sessions: boolean;
}

export function useFeatures(): Resource<Features> {
  return useResource<Features>("/features");
}
