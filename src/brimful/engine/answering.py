"""Answers: what a model said to a context, kept beside it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from brimful.core.check import shown
from brimful.core.context import Context
from brimful.engine.assembling import Assembling
from brimful.engine.writing import new_id
from brimful.errors import InvalidValue, UnknownRecord
from brimful.records import Content, Response, Usage


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
        usage: Usage | None = None,
        seconds: float | None = None,
        finish: str = "",
        id: str | None = None,
        at: float | datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Response:
        """Keep the answer to a context: what was said goes into the room, and the usage stands beside our count."""
        snapshot = await self.store.snapshot(context if isinstance(context, str) else context.id)
        if snapshot is None:
            raise UnknownRecord("context", context if isinstance(context, str) else context.id)
        moment = self._moment(at)
        name = id or new_id("res")
        said = content if text is None else text
        message = None
        if said is not None:
            message = await self.post(
                room=snapshot.room, content=said, sender=sender, role="assistant", id=f"{name}/message", at=moment
            )
        response = Response(
            id=name,
            context=snapshot.id,
            room=snapshot.room,
            message=message.id if message else None,
            model=model or snapshot.context.inputs.model.id,
            at=moment,
            seconds=seconds,
            usage=usage,
            finish=finish,
            metadata=dict(metadata or {}),
        )
        await self.store.respond(response)
        stands = next((each for each in await self.store.responses(context=snapshot.id) if each.id == name), None)
        if stands is None or (message is not None and message.room != snapshot.room):
            raise InvalidValue("id", f"{shown(name)} is that of an answer to another context")
        await self._tell("responded", snapshot.room, id=name, context=snapshot.id, model=stands.model)
        return stands
