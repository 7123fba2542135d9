"""Answers: what a model said to a context, kept beside it, and what its bill teaches."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from brimful.core.check import shown
from brimful.core.context import Context
from brimful.counting import observation_of
from brimful.engine.assembling import Assembling
from brimful.engine.company import SPOKEN_BY
from brimful.engine.facts import answer_facts
from brimful.engine.given import context_id_of, usage_of, want_texts
from brimful.engine.introduction import speaker_of
from brimful.engine.lessons import route_of
from brimful.engine.replacing import replaced_by
from brimful.engine.writing import SUPERSEDED, new_id
from brimful.errors import InvalidValue, UnknownRecord
from brimful.observation import Observation
from brimful.records import Content, Message, Persona, Response, Usage


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of an answer. Without a `route`, it came from the model's own provider."""

    content: Content | None = None
    sender: str = ""
    model: str = ""
    route: str = ""
    usage: Usage | None = None
    seconds: float | None = None
    finish: str = ""
    metadata: dict[str, Any] = {}


class Answering(Assembling):
    """Keeps answers, each linked to the context that produced it."""

    async def record_response(  # noqa: PLR0913 - every one has a default but the context
        self,
        context: Context | str,
        text: str | None = None,
        *,
        content: Content | None = None,
        sender: str = "",
        model: str = "",
        route: str = "",
        usage: Usage | Mapping[str, Any] | None = None,
        seconds: float | None = None,
        finish: str = "",
        id: str | None = None,
        at: float | datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Response:
        """Keep the answer to a context: what was said goes into the room, and the usage stands beside our count.

        Without a `sender`, the persona says it whose context it was. `route` says which server answered: counts for a
        model are learned for each.
        """
        want_texts(sender=sender, model=model, route=route, finish=finish)
        name = context_id_of(context)
        snapshot = await self.store.snapshot(name)
        if snapshot is None:
            raise UnknownRecord("context", name)
        who = None if snapshot.persona is None else await self.store.get(Persona, snapshot.persona)
        told = Told(
            content=content if text is None else text,
            sender=sender or speaker_of(who, snapshot.persona),
            model=model,
            route=route,
            usage=usage_of(usage),
            seconds=seconds,
            finish=finish,
            metadata=dict(metadata or {}),
        )
        response, _ = await self._keep(snapshot.context, told, room=snapshot.room, of=snapshot.id, id=id, at=at)
        return response

    async def _keep(
        self,
        context: Context,
        told: Told,
        *,
        room: str,
        of: str,
        id: str | None = None,
        at: float | datetime | None = None,
    ) -> tuple[Response, Message | None]:
        """Post what was said in answer to the snapshot `of` a context, keep what is told of it, and learn from it."""
        moment, name = self._moment(at), id or new_id("res")
        said = await self.store.messages([f"{id}/message"]) if id else []
        if any(message.room != room for message in said):
            raise InvalidValue("id", f"{shown(name)} is that of an answer to another context")
        message = None if told.content is None else await self._said(told, room=room, of=of, name=name, at=moment)
        seen = await self._observed(context, told, room=room, of=of, id=f"{name}/usage", at=moment)
        response = Response(
            id=name,
            context=of,
            room=room,
            message=message.id if message else None,
            model=told.model or context.inputs.model.id,
            route=told.route,
            at=moment,
            seconds=told.seconds,
            usage=told.usage,
            finish=told.finish,
            expected_cached=seen.expected_cached if seen else 0,
            notes=notes_on(seen),
            metadata=told.metadata,
        )
        await self.store.respond(response)
        stands = next((each for each in await self.store.responses(context=of) if each.id == name), None)
        if stands is None:
            raise InvalidValue("id", f"{shown(name)} is that of an answer to another context")
        if seen is not None:
            await self._parts.lessons.observe(seen, now=self._clock())
        await self._tell("responded", room, **answer_facts(stands, context))
        return stands, message

    async def _said(self, told: Told, *, room: str, of: str, name: str, at: float) -> Message:
        """Post an answer in the place of others to the same question; one that came too late stands aside itself."""
        build = await self.store.build(of)
        asked = next(iter(await self.store.messages([build.message])), None) if build and build.message else None
        late = asked is not None and asked.metadata.get(SUPERSEDED) is True
        message = await self.post(
            room=room,
            content=told.content,
            sender=told.sender,
            role="assistant",
            id=f"{name}/message",
            at=at,
            metadata={
                **({SPOKEN_BY: build.persona} if build and build.persona else {}),
                **({"hidden": True, SUPERSEDED: True} if late else {}),
            },
        )
        if build is not None and asked is not None and not message.hidden:
            await self.supersede(await replaced_by(self.store, message, build))
        return message

    async def _observed(
        self, context: Context, told: Told, *, room: str, of: str, id: str, at: float
    ) -> Observation | None:
        """Return what the provider reported beside our count; None if it reported nothing."""
        if told.usage is None or not told.usage.prompt:
            return None
        route = told.route or route_of(context.inputs.model)
        return await asyncio.to_thread(
            observation_of,
            context,
            told.usage,
            id=id,
            route=route,
            room=room,
            at=at,
            snapshot=of,
            expected_cached=self._parts.requests.expect(context, context.inputs.origin, context.inputs.model.id, route),
        )


def notes_on(seen: Observation | None) -> tuple[str, ...]:
    """Say what was amiss with an answer: that its provider did not read all of the prompt."""
    if seen is None or seen.kind != "cut":
        return ()
    lost = f"{seen.reported:,} of {seen.counted:,} tokens"
    return (
        f"{seen.route} reports {lost} for the prompt: it has silently cut it; look at the window that it was given",
    )
