/** The messages of a room, oldest first, and a chat in it if a server can answer. */

import "../styles/chat.css";

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { useChange } from "../api/change";
import { ask, clear, stop, turns, type Question, type Running } from "../api/chat";
import { json, key, path } from "../api/client";
import { countModel } from "../api/counting";
import { useStored } from "../api/draft";
import { follow } from "../api/events";
import { useFeatures } from "../api/features";
import { type Pages, usePages } from "../api/pages";
import type { Message, MessageList, Persona, PersonaList } from "../api/records";
import { useResource } from "../api/resource";
import type { ServedModels } from "../api/types";
import { newId, questionOf, type Reply } from "../logic/chat";
import { evidence, formatTime, money, plural, relevanceText, seconds, whole } from "../logic/format";
import { contextPath } from "../logic/routes";
import { messageText } from "../logic/text";
import { setQuery, route } from "../router";
import { Confirm } from "./dialog";
import { Choice, TextField } from "./fields";
import { More } from "./more";
import { Rate } from "./rate";
import { Loaded } from "./states";

const PAGE = 50; // messages at first
const MORE = 100;
const MOST = 1000; // in one request

interface Actions {
  edit(message: Message): void;
  remove(message: Message): void;
  answer(question: Question): void;
}

export function Chat({ room, persona }: { room: string; persona: string | null }) {
  const q = route.value.query.get("q") ?? "";
  const [limit, setLimit] = useState(PAGE);
  const list = usePages<MessageList>(path`/rooms/${room}/messages`, { q, limit, model: countModel.value }, "before");
  const features = useFeatures().data;
  const turn = turns.value.get(room) ?? null;
  const [removing, setRemoving] = useState<Message | null>(null);
  const [editing, setEditing] = useState("");
  const [replaced, setReplaced] = useState(false);
  const change = useChange();
  const who = useWho(room, persona);
  const found = list.pages.flatMap((page) => page.messages);
  const messages = q ? found : found.toReversed();
  const hidden = messages.filter((each) => each.hidden).length;
  useReload(room, turn, list);

  const remove = async (message: Message) => {
    if (await change.run(() => json(path`/messages/${message.id}`, { method: "DELETE" }))) {
      clear(room);
      setRemoving(null);
      list.first.reload();
    }
  };
  const act: Actions = {
    edit: (message) => setEditing(message.id),
    remove: setRemoving,
    answer: (question) => void ask(room, { ...who.named(question.persona), ...question }),
  };
  const canChat = features?.upstreams === true && features.chat;
  const done = () => {
    setEditing("");
    list.first.reload();
  };
  // One list as long as possible: loading it again keeps it complete, and the view stays where it is.
  const loadEarlier = () => (limit < MOST ? setLimit(Math.min(MOST, limit + MORE)) : list.next());
  return (
    <section class={q ? "" : "chat"} aria-labelledby="messages-heading">
      <div class="chat-head">
        <h2 id="messages-heading">{q ? "Search results" : "Messages"}</h2>
        <div class="filters" role="search" aria-label="Search messages">
          <TextField label="Search" type="search" grow value={q} placeholder="search by words or meaning" onInput={(text) => setQuery({ q: text })} />
          {!q && hidden > 0 && <button type="button" aria-pressed={replaced} onClick={() => setReplaced(!replaced)}>{replaced ? "Hide" : "Show"} {whole(hidden)} hidden or replaced</button>}
        </div>
      </div>
      <Loaded of={list.first}>
        {() => (
          <>
            {messages.length === 0 && !turn && <p class="muted">{q ? "No matching messages." : "No messages yet."}</p>}
            {q ? (
              <>
                <ol class="records" aria-label="Messages">{messages.map((each) => <Said key={each.id} message={each} act={act} />)}</ol>
                <More of={list} />
              </>
            ) : (
              <Log list={list} onEarlier={loadEarlier} messages={messages.filter((each) => replaced || !each.hidden)} turn={turn} canChat={canChat} editing={editing} act={act} onEdited={done} room={room} />
            )}
          </>
        )}
      </Loaded>
      {!q && features && (canChat ? list.first.data && <Composer room={room} own={persona} who={who} turn={turn} messages={messages} /> : <NoChat upstreams={features.upstreams} />)}
      {removing && (
        <Confirm title="Remove this message?" action="Remove" busy={change.busy} error={change.error} onYes={() => void remove(removing)} onClose={() => setRemoving(null)}>
          <blockquote>{messageText(removing.content)}</blockquote>
          <p>Future contexts cannot include it. This frees <b class="num">{whole(removing.tokens)}</b> tokens wherever it would have been included.</p>
        </Confirm>
      )}
    </section>
  );
}

function NoChat({ upstreams }: { upstreams: boolean }) {
  if (upstreams) return <p class="note">Your API key lacks the scope <code>chat</code>, so you cannot ask models here.</p>;
  return <p class="note">To chat here, start the server with a model server that can answer: <code>brimful serve --upstream URL</code>.</p>;
}

/** Load the list again when a turn ends and when somebody else is answered, and forget a turn that the list has. */
function useReload(room: string, turn: Running | null, list: Pages<MessageList>): void {
  const { reload, data } = list.first;
  const isBusy = turn?.busy ?? false;
  const wasBusy = useRef(isBusy);
  useEffect(() => {
    if (wasBusy.current && !isBusy) reload();
    wasBusy.current = isBusy;
  }, [isBusy, reload]);
  useEffect(() => {
    if (turn && !turn.busy && !turn.error && data && isStored(turn, data.messages)) clear(room);
  }, [room, turn, data]);

  const isFirst = list.pages.length < 2; // loading the list again would close older pages
  const may = useRef(false);
  may.current = isFirst && !isBusy;
  const secret = key.value;
  useEffect(() => {
    const controller = new AbortController();
    void follow(
      {
        event({ data: text }) {
          if (may.current && (JSON.parse(text) as { room?: string }).room === room) reload();
        },
        state() {},
      },
      controller.signal,
    );
    return () => controller.abort();
  }, [room, reload, secret]);
}

function isStored(turn: Running, messages: readonly Message[]): boolean {
  return turn.replies.every((reply) => messages.some((each) => each.role === "assistant" && each.context === reply.context));
}

function Log({ list, onEarlier, messages, turn, canChat, editing, act, onEdited, room }: {
  list: Pages<MessageList>;
  onEarlier: () => void;
  /** Oldest first. */
  messages: Message[];
  turn: Running | null;
  canChat: boolean;
  editing: string;
  act: Actions;
  onEdited: () => void;
  room: string;
}) {
  const box = useFollowed<HTMLDivElement>(messages[0]?.id, turn?.question);
  const visible = messages.filter((each) => !each.hidden);
  const last = visible.at(-1);
  const from = turn?.busy && turn.question.rewind ? messages.find((each) => each.id === turn.question.message) : undefined;
  const busy = turn?.busy ?? false;
  return (
    <div class="chat-log" ref={box} tabIndex={0} role="group" aria-label="Chat">
      {list.error && <p class="bad" role="alert">{list.error}</p>}
      {list.more && <p class="center"><button type="button" disabled={list.busy || list.first.busy} onClick={onEarlier}>{list.busy ? "Loading…" : "Earlier messages"}</button></p>}
      <ol class="records" aria-label="Messages">
        {messages.map((each) =>
          editing === each.id ? <Edit key={each.id} message={each} canAnswer={canChat && !busy} act={act} onDone={onEdited} /> : (
            <Said key={each.id} message={each} act={act} off={each.hidden || (from !== undefined && each.seq > from.seq)}>
              {canChat && !busy && <AnswerAgain message={each} isLast={each === last} messages={visible} act={act} />}
            </Said>
          ))}
        {turn && <Asked turn={turn} messages={messages} room={room} />}
      </ol>
    </div>
  );
}

/** A scrolling box that follows its end, unless the reader has scrolled up: then it stays where it is. */
function useFollowed<E extends HTMLElement>(first: unknown, question: unknown) {
  const box = useRef<E>(null);
  const isAtEnd = useRef(true);
  const before = useRef<{ first: unknown; question: unknown; height: number }>({ first, question, height: 0 });
  useEffect(() => {
    const element = box.current;
    const note = () => {
      if (element) isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
    };
    element?.addEventListener("scroll", note, { passive: true });
    return () => element?.removeEventListener("scroll", note);
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    if (question !== before.current.question && question) isAtEnd.current = true;
    if (isAtEnd.current) element.scrollTop = element.scrollHeight;
    else if (first !== before.current.first) element.scrollTop += element.scrollHeight - before.current.height;
    before.current = { first, question, height: element.scrollHeight };
  });
  return box;
}

function Said({ message, act, off = false, children }: { message: Message; act: Actions; off?: boolean; children?: preact.ComponentChildren }) {
  const { answer } = message;
  return (
    <li class={`record role-${message.role}${off ? " off" : ""}`}>
      <p class="record-text">{messageText(message.content)}</p>
      {answer && <Rate answer={answer} />}
      <div class="record-line small">
        <b>{message.sender || message.role}</b>{message.sender && <span class="muted">{message.role}</span>}
        <span class="muted">{formatTime(message.at)}</span>
        <span>{plural(message.tokens, "token")} of text</span>
        {answer?.seconds != null && <span class="num">{seconds(answer.seconds)}</span>}
        {answer?.cost != null && <span class="num">{money(answer.cost)}</span>}
        {answer?.finish === "broken-off" && <span class="tag warn">stopped</span>}
        {message.edited !== null && <span class="tag">edited</span>}
        {message.superseded ? <span class="tag">replaced</span> : message.hidden && <span class="tag">hidden</span>}
        {message.relevance !== null && <span class="muted" title={evidence(message.parts)}>{relevanceText(message.relevance)}</span>}
        <code>{message.id}</code>
        <span class="record-buttons">
          {message.context && <a class="quiet" href={contextPath(message.context)}>What the model saw<span class="hidden"> for {message.id}</span></a>}
          {children}
          {message.role === "user" && !message.hidden && typeof message.content === "string" && <button type="button" class="quiet" onClick={() => act.edit(message)}>Edit<span class="hidden"> {message.id}</span></button>}
          <button type="button" class="quiet" onClick={() => act.remove(message)}>Remove<span class="hidden"> {message.id}</span></button>
        </span>
      </div>
    </li>
  );
}

/** The buttons that answer a question again. The newest answer is replaced; from an earlier question on, everything. */
function AnswerAgain({ message, isLast, messages, act }: { message: Message; isLast: boolean; messages: Message[]; act: Actions }) {
  const [asking, setAsking] = useState(false);
  const later = messages.filter((each) => each.seq > message.seq).length;
  if (message.hidden) return null;
  if (message.role === "assistant") {
    const question = isLast ? questionOf(messages, message) : null;
    if (!question) return null;
    const again: Question = { message: question.id, ...(message.persona && { persona: message.persona }) };
    return <button type="button" class="quiet" onClick={() => act.answer(again)}>Regenerate</button>;
  }
  if (message.role !== "user") return null;
  if (isLast) return <button type="button" class="quiet" onClick={() => act.answer({ message: message.id })}>Answer</button>;
  return (
    <>
      <button type="button" class="quiet" onClick={() => setAsking(true)}>Answer again from here<span class="hidden"> {message.id}</span></button>
      {asking && (
        <Confirm title="Answer again from here?" action="Answer again" busy={false} error="" onYes={() => (setAsking(false), act.answer({ message: message.id, rewind: true }))} onClose={() => setAsking(false)}>
          <blockquote>{messageText(message.content)}</blockquote>
          <p>The new answer replaces {later === 1 ? "the message" : `the ${plural(later, "message")}`} after it. Replaced messages are in no later context, but they stay stored, and you can still show them.</p>
        </Confirm>
      )}
    </>
  );
}

function Edit({ message, canAnswer, act, onDone }: { message: Message; canAnswer: boolean; act: Actions; onDone: () => void }) {
  const [text, setText] = useState(messageText(message.content));
  const change = useChange();
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  const save = async (andAnswer: boolean) => {
    const isSaved = text === message.content || (await change.run(() => json(path`/messages/${message.id}`, { method: "PUT", body: { content: text } })));
    if (!isSaved) return;
    onDone();
    if (andAnswer) act.answer({ message: message.id, rewind: true });
  };
  return (
    <li class="record">
      <form
        aria-label={`Edit ${message.id}`} onSubmit={(event) => (event.preventDefault(), void save(false))}
        onKeyDown={(event) => event.key === "Escape" && onDone()}
      >
        <textarea ref={area} rows={4} aria-label="Message" value={text} required onInput={(event) => setText(event.currentTarget.value)} />
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <p class="small muted">Saving keeps the messages after it. Answering again replaces them.</p>
        <div class="buttons">
          <button type="button" onClick={onDone}>Cancel</button>
          {canAnswer && <button type="button" disabled={change.busy || !text.trim()} onClick={() => void save(true)}>Save and answer again</button>}
          <button type="submit" class="main" disabled={change.busy || !text.trim()}>Save</button>
        </div>
      </form>
    </li>
  );
}

/** A question and its answers, as far as they are not in the list yet. */
function Asked({ turn, messages, room }: { turn: Running; messages: readonly Message[]; room: string }) {
  const { question, replies, posted, busy, error } = turn;
  const isListed = question.content === undefined || messages.some((each) => each.id === question.id);
  const left = replies.filter((reply) => !messages.some((each) => each.role === "assistant" && each.context === reply.context));
  const retry = () => void ask(room, posted && question.id ? { ...without(question), message: question.id } : question);
  return (
    <>
      {!isListed && (busy || posted) && <li class="record role-user"><p class="record-text">{question.content}</p></li>}
      {left.map((reply) => <Streamed key={reply.context} reply={reply} busy={busy} />)}
      {busy && replies.length === 0 && <li class="record role-assistant"><p class="muted waiting">Waiting for the answer…</p></li>}
      {error && (
        <li class="note bad">
          <p role="alert"><strong>{isListed || posted ? "No complete answer." : "Not sent."}</strong> {error.charAt(0).toUpperCase() + error.slice(1)}</p>
          {(isListed || posted) && <button type="button" onClick={retry}>Retry</button>}
        </li>
      )}
    </>
  );
}

/** The question again, as one that the room has. */
function without({ content: _content, id: _id, ...rest }: Question): Question {
  return rest;
}

function Streamed({ reply, busy }: { reply: Reply; busy: boolean }) {
  return (
    <li class="record role-assistant" aria-busy={busy && !reply.done}>
      <p class="record-text">{reply.text || <span class="muted waiting">Thinking…</span>}</p>
      <div class="record-line small">
        <b>{reply.sender || "assistant"}</b>
        <span class="muted">{reply.done ? "" : busy ? "answering…" : "stopped"}</span>
        <span class="record-buttons"><a class="quiet" href={contextPath(reply.context)}>What the model saw</a></span>
      </div>
    </li>
  );
}

interface Who {
  personas: readonly Persona[];
  /** The models that can be asked. */
  served: readonly string[];
  /** The persona and the model that were chosen; empty for the usual ones. */
  persona: string;
  model: string;
  usualModel: string;
  setPersona(id: string): void;
  setModel(name: string): void;
  /** What a request has to name, for a persona or the chosen one. */
  named(persona?: string): Question;
}

/** Who answers, and with which model. */
function useWho(room: string, own: string | null): Who {
  const [persona, setPersona] = useStored(`persona ${room}`);
  const [model, setModel] = useStored(`model ${room}`);
  const personas = useResource<PersonaList>("/personas").data?.personas ?? [];
  const served = useResource<ServedModels>("/served-models").data?.models ?? [];
  const modelOf = (id: string | null) => personas.find((each) => each.id === id)?.model ?? "";
  const named = (other?: string): Question => {
    const speaker = other ?? persona;
    const name = model || (modelOf(speaker || own) ? "" : (served[0] ?? ""));
    return { ...(speaker && { persona: speaker }), ...(name && { model: name }) };
  };
  return { personas, served, persona, model, usualModel: modelOf(persona || own) || served[0] || "", setPersona, setModel, named };
}

function Composer({ room, own, who, turn, messages }: {
  room: string;
  /** The persona of the room. */
  own: string | null;
  who: Who;
  turn: Running | null;
  messages: readonly Message[];
}) {
  const [draft, setDraft] = useStored(`draft ${room}`);
  const [unsent, setUnsent] = useStored(`unsent ${room}`); // id and text, until the room has the message
  const busy = turn?.busy ?? false;
  const [id = ""] = unsent.split(" ", 1);
  const isPosted = (turn?.question.id === id && turn.posted) || messages.some((each) => each.id === id);
  useEffect(() => {
    if (!unsent || (busy && !isPosted)) return;
    setUnsent("");
    if (!isPosted) setDraft([unsent.slice(id.length + 1), draft].filter(Boolean).join("\n\n"));
  }, [unsent, isPosted, busy]);
  const send = () => {
    if (busy || !draft.trim()) return;
    const question = { id: newId(), content: draft, ...who.named() };
    setUnsent(`${question.id} ${draft}`);
    setDraft("");
    void ask(room, question);
  };
  return (
    <form class="composer" aria-label="Write a message" onSubmit={(event) => (event.preventDefault(), send())}>
      <Announcement turn={turn} />
      <textarea
        rows={3} aria-label="Message" placeholder="Write a message" value={draft} onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="composer-line">
        {who.personas.length > 0 && <Choice label="Who answers" value={who.persona} options={[["", usualName(who.personas, own)], ...who.personas.map((each) => [each.id, each.name || each.id] as const)]} onInput={who.setPersona} />}
        <TextField label="Model" value={who.model} list={who.served} placeholder={who.usualModel || "name of a model"} onInput={who.setModel} />
        <span class="small muted wide-only"><kbd>Enter</kbd> sends, <kbd>Shift Enter</kbd> starts a new line.</span>
        {busy ? <button type="button" onClick={() => stop(room)}>Stop</button> : <button type="submit" class="main" disabled={!draft.trim()}>Send</button>}
      </div>
    </form>
  );
}

function usualName(personas: readonly Persona[], id: string | null): string {
  const usual = personas.find((each) => each.id === id);
  return usual ? `${usual.name || usual.id}, or whom you @mention` : "whom you @mention";
}

/** Tell a screen reader about finished answers, not about each piece. */
function Announcement({ turn }: { turn: Running | null }) {
  const last = turn?.replies.findLast((reply) => reply.done);
  return <p class="hidden" aria-live="polite">{last ? `${last.sender || "Answer"}: ${last.text}` : ""}</p>;
}
