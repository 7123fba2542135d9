/** Run only the latest of many requests, for example while a slider is dragged. */

export type Ask<Q, A> = (question: Q, signal: AbortSignal) => Promise<A>;

export interface Latest<Q> {
  ask(question: Q): void;
  stop(): void;
}

/**
 * One request runs at a time. Of those made meanwhile only the newest waits, so answers arrive as fast as possible. A
 * request that takes longer than `timeout` (ms) is aborted as soon as there is a newer one.
 */
export function latest<Q, A>(
  ask: Ask<Q, A>,
  on: { answer(answer: A, question: Q): void; error(error: unknown, question: Q): void; idle?(): void },
  timeout = 400,
  clock: () => number = () => performance.now(),
): Latest<Q> {
  let waiting: { question: Q } | null = null;
  let running: { controller: AbortController; since: number } | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;

  async function run(question: Q): Promise<void> {
    const mine = { controller: new AbortController(), since: clock() };
    running = mine;
    try {
      const answer = await ask(question, mine.controller.signal);
      if (running === mine && !stopped) on.answer(answer, question);
    } catch (error) {
      if (running === mine && !stopped) on.error(error, question);
    }
    if (running === mine) next();
  }

  function next(): void {
    clearTimeout(timer);
    running = null;
    const then = waiting;
    waiting = null;
    if (stopped) return;
    if (then !== null) void run(then.question);
    else on.idle?.();
  }

  function giveUp(): void {
    if (running === null || waiting === null) return;
    running.controller.abort();
    next();
  }

  return {
    ask(question) {
      if (stopped) return;
      if (running === null) return void run(question);
      waiting = { question };
      clearTimeout(timer);
      timer = setTimeout(giveUp, Math.max(0, running.since + timeout - clock()));
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      running?.controller.abort();
    },
  };
}
