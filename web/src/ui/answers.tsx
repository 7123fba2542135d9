/** What was asked and answered, beside what the model saw and what was left out. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { path, query } from "../api/client";
import { follow } from "../api/events";
import { useResource } from "../api/resource";
import type { Answer, ContextView, Decision, Notice, Recalled } from "../api/types";
import { basis, included, leftOut, nothingLeftOut, placeOf, questionOf, rating } from "../logic/candidates";
import { look, title } from "../logic/components";
import { money, percent, plural, reasonText, relevanceText, seconds, signed, whole } from "../logic/format";
import { itemPath } from "../logic/routes";
import { setQuery, route } from "../router";
import { Find } from "./find";
import { Explain } from "./help";
import { wholePath } from "./item-panel";
import { FormMark } from "./outcome";
import { later } from "./later";
import { Loaded } from "./states";

const Rate = later(() => import("./rate").then((part) => part.Rate));

const NARROW = matchMedia("(max-width: 640px)");
const SHOWN = NARROW.matches ? 3 : 8; // items in each list

export function AnswerSection({ view, onOpen }: { view: ContextView; onOpen: (id: string) => void }) {
  const inside = basis(view.decisions);
  const outside = leftOut(view.decisions);
  const standing = view.decisions.filter(included).length - inside.length;
  const find = route.value.query.get("find") ?? "";
  return (
    <div class="answer-columns">
      <Exchange view={view} />
      <section class="side" aria-labelledby="out-heading">
        <h2 id="out-heading">What it did not see</h2>
        <Find context={view.id} label="What did the answer forget?" text={find} onFind={(text) => setQuery({ find: text })} onPick={onOpen} />
        {outside.length === 0 ? <p class="small muted">{nothingLeftOut(view.decisions)}</p> : <p class="small muted">{plural(outside.length, "candidate")} left out. {outside.some((each) => each.pool) && <>Pools have limits. <Explain term="Pool" /> </>}The most relevant first:</p>}
        <Items items={outside} onOpen={onOpen} about={(each) => [each.reason === "unlikely" ? "" : reasonText(each.reason), chance(each, view)]} />
      </section>
      <section class="side" aria-labelledby="basis-heading">
        <h2 id="basis-heading">What the model saw</h2>
        <p class="small muted">{standing > 0 ? `Besides the system prompt and the question (${plural(standing, "item")}), the` : "The"} model saw {plural(inside.length, "item")}. The most relevant first:</p>
        <Items items={inside} onOpen={onOpen} about={(each) => [FIXED[each.component] ?? chance(each, view)]} />
      </section>
    </div>
  );
}

const FIXED: Record<string, string> = { pinned: "in every context", lorebook: "keyword", summaries: "summary", ledger: "earlier steps, one line each" };

function chance(decision: Decision, { decisions }: ContextView): string {
  const value = rating(decision);
  return value === null ? "" : relevanceText(value, placeOf(decision, decisions));
}

function Items({ items, onOpen, about }: { items: Decision[]; onOpen: (id: string) => void; about: (each: Decision) => string[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? items.slice(0, 200) : items.slice(0, SHOWN);
  return (
    <>
      <ol class="basis">
        {shown.map((each) => (
          <li key={each.id + each.outcome}>
            <button type="button" onClick={() => onOpen(each.id)}>
              <span class="basis-text"><span class={`swatch ${look(each.component)}`} aria-hidden="true" /> {each.excerpt || each.id}</span>
              <span class="small muted">{[title(each.component), ...about(each)].filter(Boolean).join(" · ")} <FormMark decision={each} /></span>
            </button>
          </li>
        ))}
      </ol>
      {items.length > shown.length && !all && <p><button type="button" class="quiet" onClick={() => setAll(true)}>Show more</button></p>}
    </>
  );
}

/** A text that is cut after some lines until it is opened. `rest` is where to read all of it, if `text` is its beginning. */
export function LongText({ name, look = "", text, rest = null }: { name: string; look?: string; text: string; rest?: string | null }) {
  const ref = useRef<HTMLQuoteElement>(null);
  const [isCut, setCut] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const { data, error } = useResource<Recalled>(isOpen ? rest : null);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element || isOpen) return;
    const watch = new ResizeObserver(() => setCut(element.scrollHeight > element.clientHeight + 1));
    watch.observe(element);
    return () => watch.disconnect();
  }, [text, isOpen]);
  return (
    <>
      <blockquote ref={ref} class={`record-text ${look}`} data-open={isOpen || undefined}>{(isOpen && data?.text) || text}</blockquote>
      {isOpen && error && <p class="note warn" role="alert">{error}</p>}
      {(isCut || rest !== null) && <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>Show {isOpen ? "less" : "all"}<span class="hidden"> of the {name}</span></button>}
    </>
  );
}

function Exchange({ view }: { view: ContextView }) {
  const question = questionOf(view.decisions);
  const answers = useAnswers(view);
  return (
    <section class="side" aria-labelledby="answers-heading">
      {question && <><h2>Question</h2><LongText name="question" text={question.excerpt} rest={question.excerpt.endsWith("…") ? wholePath(view.id, question.id) : null} /></>}
      <h2 id="answers-heading">{answers.length > 1 ? "Answers" : "Answer"}</h2>
      {answers.length === 0 && <p class="muted">No answer recorded. The context was not sent, or the answer has not arrived yet.</p>}
      {answers.map((answer) => <One key={answer.id} answer={answer} counted={view.tokens} />)}
    </section>
  );
}

/** The answers of a context. If there is none yet, those that arrive while the page is open. */
function useAnswers(view: ContextView): Answer[] {
  const [where, setWhere] = useState<string | null>(null);
  const late = useResource<ContextView>(where);
  const { reload } = late;
  const answers = view.answers.length > 0 ? view.answers : (late.data?.answers ?? []);
  const waits = answers.length === 0;
  useEffect(() => {
    if (!waits) return;
    const controller = new AbortController();
    const look = () => {
      setWhere(path`/contexts/${view.id}`);
      reload();
    };
    void follow(
      {
        event: ({ event, data }) => event === "answer" && (JSON.parse(data) as Answer).context === view.id && look(),
        state: (state) => state === "live" && look(),
      },
      controller.signal,
    );
    return () => controller.abort();
  }, [view.id, waits, reload]);
  return answers;
}

function One({ answer, counted }: { answer: Answer; counted: number }) {
  const { usage } = answer;
  const recalls = answer.notices.filter(isRecall);
  return (
    <>
      {answer.text && <LongText name="answer" look="answer-text" text={answer.text} />}
      <Rate answer={answer} />
      {recalls.length > 0 && <Recalls context={answer.context} recalls={recalls} />}
      {answer.notices.filter((each) => !isRecall(each)).map((notice) => <p key={notice.text} class="note warn">{notice.text}</p>)}
      <details class="usage" open={!NARROW.matches}>
        <summary>Model, time, tokens and cost</summary>
        <dl class="facts">
          <div><dt>Model</dt><dd>{answer.model || "–"}{answer.route && ` via ${answer.upstream && `${answer.upstream}, `}${answer.route}`}</dd></div>
          <div><dt>Time</dt><dd class="num">{seconds(answer.seconds)}</dd></div>
          {usage && <div><dt>Prompt</dt><dd><span class="num">{whole(usage.prompt)}</span> reported, <span class="num">{signed(usage.prompt - counted)}</span> compared to our count</dd></div>}
          {usage && <div><dt>Cached</dt><dd><span class="num">{whole(usage.cached)}</span> ({percent(usage.cached / Math.max(1, usage.prompt))}), {whole(answer.expected_cached)} expected</dd></div>}
          {usage && <div><dt>Answer</dt><dd><span class="num">{whole(usage.completion)}</span> tokens{usage.reasoning > 0 && `, ${whole(usage.reasoning)} for reasoning`}</dd></div>}
          <div><dt>Cost</dt><dd class="num">{answer.cost === null ? "price unknown" : money(answer.cost)}</dd></div>
          {answer.finish && <div><dt>Finish reason</dt><dd>{answer.finish}</dd></div>}
        </dl>
      </details>
    </>
  );
}

interface Recall extends Notice {
  facts: { handle: string; query: string; tokens: number; round: number };
}

/** Whether the model called the recall tool. */
function isRecall(notice: Notice): notice is Recall {
  return notice.kind === "recalled" && "handle" in notice.facts;
}

function Recalls({ context, recalls }: { context: string; recalls: Recall[] }) {
  return (
    <>
      <h3>Recalled by the model</h3>
      {recalls.map((each, index) => <RecallDetails key={index} context={context} {...each.facts} />)}
    </>
  );
}

function RecallDetails({ context, handle, query: words, tokens }: { context: string } & Recall["facts"]) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{handle && <code>{handle}</code>} {words && `“${words}”`} <span class="muted">{plural(tokens, "token")}</span></summary>
      {open && <RecalledText where={path`/contexts/${context}/recall` + query({ handle, query: words, max_tokens: Math.max(1, tokens) })} context={context} />}
    </details>
  );
}

export function RecalledText({ where, context }: { where: string; context: string }) {
  const read = useResource<Recalled>(where);
  return (
    <Loaded of={read} rows={2}>
      {(found) => (
        <>
          <pre class="text" tabIndex={0}>{found.text || "(nothing found)"}</pre>
          {found.id && <p><a href={itemPath(context, found.id)}>Show the item</a></p>}
        </>
      )}
    </Loaded>
  );
}
