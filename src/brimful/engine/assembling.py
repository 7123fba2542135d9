"""Building: the best context for the next answer in a room, and what a search finds."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Unpack

import msgspec

from brimful.arguments import model_of, positive
from brimful.assembly import assemble
from brimful.core.check import shown
from brimful.core.content import ContentPackage, Media
from brimful.core.context import Context
from brimful.core.model import ModelInfo, Wire
from brimful.core.policy import Policy
from brimful.core.prompt import Tool
from brimful.engine.build import Asked
from brimful.engine.company import as_seen
from brimful.engine.current import current_of
from brimful.engine.facts import build_facts
from brimful.engine.given import media_of, want_texts
from brimful.engine.introduction import cast_in, known_user, named, names_of, told_to, with_named_notes
from brimful.engine.plan import Limits, Plan, make_plan
from brimful.engine.prefixes import conversation_of
from brimful.engine.writing import Writing
from brimful.errors import InvalidValue
from brimful.policies import Overrides
from brimful.records import Content, Message, Persona, Room, Snapshot, User
from brimful.retrieval.queries import queries
from brimful.retrieval.wanted import Retrieved, Wanted, at_most, check_types, memory_scopes

LAST: Final = 20  # messages among which the one that ends a room is looked for: the very last may be hidden


class Assembling(Writing):
    """Reads what was written, finds what matters now, and fills a model's window with it."""

    async def assemble(  # noqa: PLR0913 - every one has a default but the room
        self,
        *,
        room: str,
        persona: str | None = None,
        message: Content | Message | None = None,
        model: str | ModelInfo | None = None,
        policy: str | Policy | None = None,
        sender: str = "",
        user: str | None = None,
        media: Sequence[Media] = (),
        tools: Sequence[Tool | Mapping[str, Any]] = (),
        focus: str = "",
        system: str | None = None,
        window: int | None = None,
        completion: int | None = None,
        overrides: Mapping[str, Any] | Overrides | None = None,
        wire: Wire | None = None,
        route: str = "",
        notes: Sequence[str] = (),
        fields: Mapping[str, Any] | None = None,
        now: float | datetime | None = None,
        save: bool = True,
    ) -> Context:
        """Build the best context for the next answer in a room, and keep its record.

        Without a `persona`, the room's own answers. `message` is what is to be answered: a text, parts, or a message
        that was posted; without one, the room ends with it. `focus` is one more thing to look for. `system` stands in
        the place of the persona's prompt. `route` is the server that will be asked: what was learned of the model there
        is heeded. `notes` are said on the record. `fields` are a caller's own, beside the messages: they are passed on.
        With `save=False` nothing is kept: a dry run.
        """
        want_texts(room=room, persona=persona, sender=sender, user=user, focus=focus, system=system, route=route)
        begun, moment = self._clock(), self._moment(now, "now")
        place, who, asker, missing = await self._whereabouts(room, persona, user, system)
        persona = who.id if who else None
        window = positive("window", window)
        completion = positive("completion", completion) or (who.completion if who else None)
        lesson = await self._parts.lessons.learned(self._model_of(model, who), route, now=moment)
        window = min((each for each in (window, lesson.window) if each is not None), default=None)
        plan = self._plan(place, who, lesson.model, policy, overrides=overrides, window=window, completion=completion)
        given = await self._last_words(room, who) if message is None else message
        current = current_of(given, room=room, sender=sender, now=moment, persona=who)
        conversation = conversation_of(room, persona, plan.policy, plan.budget)
        previous = await self._parts.prefixes.last(conversation)
        asked = Asked(
            current=current,
            user=asker,
            media=media_of(media),
            focus=focus or "",
            begins=previous.first if previous else "",
            now=moment,
        )
        built = await self._parts.builder.build(plan, asked)
        if current.message is None and not any(map(_is_said, built.packages)):
            what = "is empty" if await self.store.get(Room, room) else "is no room of the store"
            raise InvalidValue("room", f"{shown(room)} {what}, and there is no message: there is nothing to answer")
        context = await asyncio.to_thread(
            assemble,
            built.packages,
            model=plan.model,
            policy=plan.policy,
            now=moment,
            previous=previous,
            tools=tools,
            window=window,
            completion=completion,
            wire=wire,
            degraded=(*missing, *notes, *lesson.notes, *built.degraded),
            origin=msgspec.json.encode([room, persona]).decode(),  # names may hold any sign that could part them
            fields=fields,
        )
        if save:
            self._parts.prefixes.keep(conversation, context.history)
            await self.store.save(
                Snapshot(id=context.id, room=room, persona=persona, at=moment, message=current.id, context=context)
            )
        if self._hooks:
            await self._tell(
                "assembled",
                room,
                **build_facts(context, seconds=self._clock() - begun),
                persona=persona,
                cached=built.cached,
                tokenized=built.tokenized,
                breaker=self._breaker.state(self._clock()),
            )
        return context

    async def search(
        self,
        text: str,
        *,
        persona: str | None = None,
        user: str | None = None,
        room: str | None = None,
        types: Sequence[str] = (),
        limit: int = 20,
        now: float | datetime | None = None,
    ) -> Retrieved:
        """Find memories that persona and user may know, and with a room what was said there, the most relevant first.

        Each of the two brings `limit` at most, as a build would rank them.
        """
        check_types(types)
        wanted = Wanted(
            room=room,
            memories=memory_scopes(persona, user, room),
            types=tuple(types or self._settings.types),
            limit=limit,
            least_relevance=self._settings.least_relevance,
            half_life=self._settings.half_life,
        )
        found = await self._parts.retriever.retrieve(queries(text), wanted, now=self._moment(now, "now"))
        return msgspec.structs.replace(found, hits=at_most(limit, found.hits))

    async def _last_words(self, room: str, persona: Persona | None) -> Message | None:
        """Return the message that ends a room, if somebody else said it: that is what is to be answered."""
        newest = await self.store.history(room, limit=LAST)
        seen = as_seen([entry.message for entry in newest if not entry.message.hidden], persona)
        return seen[0] if seen and seen[0].role == "user" else None

    async def _whereabouts(
        self, room: str, persona: str | None, user: str | None, system: str | None
    ) -> tuple[Room, Persona | None, User | None, list[str]]:
        """Return room, persona and user as this call means them, and note what was looked for in vain."""
        place = await self.store.get(Room, room)
        persona = place.persona if persona is None and place else persona
        who = None if persona is None else await self.store.get(Persona, persona)
        notes = []
        if place is None:
            notes.append(f"room {shown(room)} is not in the store: nothing was said in it yet")
        if persona is not None and who is None:
            who = Persona(id=persona)
            notes.append(f"persona {shown(persona)} is not in the store: it has no prompt")
        who = who and cast_in(who, place)
        told, who = told_to(place or Room(id=room), who, system)
        asker = await known_user(self.store, user or told.user)
        fill = names_of(who, asker)
        asker = asker and with_named_notes(asker, fill)
        return with_named_notes(told, fill), who and named(who, fill), asker, notes

    def _model_of(self, model: str | ModelInfo | None, persona: Persona | None) -> ModelInfo:
        """Settle the model: what the caller says, then the persona, then the engine."""
        named = model or (persona.model if persona else "") or self._model
        if not named:
            raise InvalidValue("model", "say for which model: here, in the persona, or in Engine(model=…)")
        return model_of(named)

    def _plan(
        self,
        room: Room,
        persona: Persona | None,
        model: ModelInfo,
        policy: str | Policy | None,
        **limits: Unpack[Limits],
    ) -> Plan:
        """Settle the policy: what the caller says, then the persona, then the engine."""
        by = policy or (persona.policy if persona else "") or self._policy
        plan = make_plan(room, persona, model=model, policy=by, **limits)
        if plan.vocabulary is not None:
            self._vocabularies[plan.vocabulary] = None
        return plan


def _is_said(package: ContentPackage) -> bool:
    return package.kind.startswith(("message-recent", "tool-"))
