/** Feedback on an answer: good or bad, and a note. */

import "../styles/rate.css";

import { useEffect, useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import type { Answer, Feedback, Rating } from "../api/types";

const NAMES: [Rating, string][] = [["good", "Good"], ["bad", "Bad"]];

export function Rate({ answer }: { answer: Answer }) {
  const [feedback, setFeedback] = useState<Feedback | null>(answer.feedback);
  const [note, setNote] = useState<string | null>(null); // null: it is not being edited
  const change = useChange();
  useEffect(() => setFeedback(answer.feedback), [answer.feedback]);
  const save = (rating: Rating | null, text: string) =>
    change.run(async () => {
      const saved = await json<Answer>(path`/answers/${answer.id}/feedback`, { method: "POST", body: { rating, note: rating ? text : "" } });
      setFeedback(saved.feedback);
      setNote(null);
    });
  const given = feedback?.rating;
  return (
    <div class="rate small" role="group" aria-label={`Feedback on ${answer.id}`}>
      <span class="muted" aria-hidden="true">Feedback</span>
      {NAMES.map(([rating, name]) => (
        <button key={rating} type="button" class="quiet" aria-pressed={given === rating} disabled={change.busy} onClick={() => void save(given === rating ? null : rating, feedback?.note ?? "")}>
          {name}
        </button>
      ))}
      {given && note === null && feedback.note && <span class="rate-note">“{feedback.note}”</span>}
      {given && note === null && <button type="button" class="quiet" onClick={() => setNote(feedback.note)}>{feedback.note ? "Edit note" : "Add a note"}</button>}
      {given && note !== null && (
        <form aria-label="Note" onSubmit={(event) => (event.preventDefault(), void save(given, note))} onKeyDown={(event) => event.key === "Escape" && setNote(null)}>
          <input type="text" aria-label="Why" placeholder="Why?" maxLength={10_000} value={note} ref={(field) => field?.focus()} onInput={(event) => setNote(event.currentTarget.value)} />
          <button type="submit" disabled={change.busy}>Save note</button>
          <button type="button" class="quiet" onClick={() => setNote(null)}>Cancel</button>
        </form>
      )}
      {change.error && <span class="bad" role="alert">{change.error}</span>}
    </div>
  );
}
