/** The model's answer to a context: its text, tokens, time and cost. */

import type { Answer } from "../api/types";
import { money, percent, seconds, signed, whole } from "../logic/format";

export function Answers({ answers, counted }: { answers: Answer[]; counted: number }) {
  return (
    <section aria-labelledby="answers-heading">
      <h2 id="answers-heading">{answers.length > 1 ? "Answers" : "Answer"}</h2>
      {answers.length === 0 && <p class="muted">No answer recorded. The context was not sent, or the answer has not arrived yet.</p>}
      {answers.map((answer) => <One key={answer.id} answer={answer} counted={counted} />)}
    </section>
  );
}

function One({ answer, counted }: { answer: Answer; counted: number }) {
  const { usage } = answer;
  return (
    <>
      {answer.text && <blockquote class="record-text">{answer.text}</blockquote>}
      <dl class="facts across">
        <div><dt>Model</dt><dd>{answer.model || "–"}</dd></div>
        {answer.route && <div><dt>Route</dt><dd>{answer.route}</dd></div>}
        <div><dt>Time</dt><dd class="num">{seconds(answer.seconds)}</dd></div>
        {usage && <div><dt>Prompt</dt><dd><span class="num">{whole(usage.prompt)}</span> reported, <span class="num">{signed(usage.prompt - counted)}</span> compared to our count</dd></div>}
        {usage && <div><dt>Cached</dt><dd><span class="num">{whole(usage.cached)}</span> ({percent(usage.cached / Math.max(1, usage.prompt))}), {whole(answer.expected_cached)} expected</dd></div>}
        {usage && <div><dt>Answer</dt><dd><span class="num">{whole(usage.completion)}</span> tokens{usage.reasoning > 0 && `, ${whole(usage.reasoning)} for reasoning`}</dd></div>}
        <div><dt>Cost</dt><dd class="num">{answer.cost === null ? "price unknown" : money(answer.cost)}</dd></div>
        {answer.finish && <div><dt>Finish reason</dt><dd>{answer.finish}</dd></div>}
        {answer.message && <div><dt>Message</dt><dd><code>{answer.message}</code></dd></div>}
      </dl>
      {answer.notices.map((notice) => <p key={notice.text} class="note warn">{notice.text}</p>)}
    </>
  );
}
