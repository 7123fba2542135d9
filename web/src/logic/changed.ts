/** What somebody changed, and nothing else: who sends more takes back what others changed meanwhile. */

/** The fields of `after` that say something else than those of `before`. */
export function changed<T extends object>(before: T, after: T): Partial<T> {
  const differs = (name: string) => JSON.stringify(before[name as keyof T]) !== JSON.stringify(after[name as keyof T]);
  return Object.fromEntries(Object.entries(after).filter(([name]) => differs(name))) as Partial<T>;
}
