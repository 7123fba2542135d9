/** Detect changed fields, so that saving does not overwrite what others changed meanwhile. */

/** Return the fields of `after` that differ from `before`. */
export function changed<T extends object>(before: T, after: T): Partial<T> {
  const differs = (name: string) => JSON.stringify(before[name as keyof T]) !== JSON.stringify(after[name as keyof T]);
  return Object.fromEntries(Object.entries(after).filter(([name]) => differs(name))) as Partial<T>;
}
