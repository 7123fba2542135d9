"""Fit requests that an application builds itself, and learn from what their providers report."""

from collections.abc import Mapping
from typing import Any, Final

from brimful.assembly.arguments import resolve_model, resolve_notices
from brimful.assembly.conversations import Conversations
from brimful.assembly.fit import FitOptions
from brimful.core.context import Context
from brimful.core.validation import preview
from brimful.counting import make_overflow_report
from brimful.engine.calibration import Calibrator, get_default_route
from brimful.engine.events import Emitter, get_build_facts
from brimful.engine.options import EngineSettings, ResponseOptions, check_options, require_string
from brimful.engine.responder import Responder
from brimful.engine.writer import new_id
from brimful.errors import ContextOverflow, InvalidValue
from brimful.records import Response, Snapshot
from brimful.stores import Store
from brimful.threads import run_in_thread
from brimful.wires.registry import DEFAULT_WIRE, find_incoming_wire

DEFAULT_ROOM: Final = "fit"
"""The room of requests without a conversation."""


class RequestFitter:
    """Fits requests of conversations with calibrated counts, records them, and learns from their usage."""

    def __init__(
        self, store: Store, settings: EngineSettings, *, calibrator: Calibrator, responder: Responder, events: Emitter
    ) -> None:
        self._store = store
        self._settings = settings
        self._calibrator = calibrator
        self._responder = responder
        self._events = events
        self._conversations = Conversations()

    async def fit(
        self, request: dict[str, Any], conversation: str, route: str, options: FitOptions, *, save: bool
    ) -> Context:
        """Fit the next request of a conversation, and save its record unless the caller does."""
        check_options(options, FitOptions)
        require_string("conversation", conversation)
        require_string("route", route)
        started = self._settings.clock()
        now = self._settings.resolve_time(options.get("now"), "now")
        fitting = FitOptions(**{**options, "now": now, "origin": options.get("origin") or conversation})
        await self._calibrate(request, route, fitting)
        context = await run_in_thread(self._conversations.fit, conversation, request, **fitting)
        if save:
            await self._save(context, conversation or DEFAULT_ROOM, now)
        if self._events:
            facts = get_build_facts(context, seconds=self._settings.clock() - started)
            await self._events.emit("assembled", conversation or DEFAULT_ROOM, **facts)
        return context

    async def observe(self, context: Context, room: str, options: ResponseOptions) -> Response:
        """Record the answer to a fitted request; its record is saved first if it is new."""
        await self._save(_require_fitted(context), room, context.inputs.now)
        return await self._responder.record_response(context, **options)

    async def observe_overflow(self, context: Context, error: ContextOverflow, route: str) -> None:
        """Learn that a provider refused a fitted request as too long."""
        if not isinstance(error, ContextOverflow):
            raise InvalidValue("error", f"must be a ContextOverflow, not {preview(error)}")
        now = self._settings.clock()
        route = route or get_default_route(_require_fitted(context).inputs.model)
        report = await run_in_thread(make_overflow_report, context, error, id=new_id("obs"), route=route, at=now)
        await self._calibrator.add(report, now=now)

    async def _calibrate(self, request: object, route: str, options: FitOptions) -> None:
        """Replace the model and its window by what was learned about them. If the request is wrong, `fit` says so."""
        wire = find_incoming_wire(options.get("wire", DEFAULT_WIRE))
        name = options.get("model") or (request.get("model") if isinstance(request, Mapping) else None)
        if not name:
            return
        info = resolve_model(name, wire.provider, options.get("betas", ()), options.get("tokenizer"))
        learned = await self._calibrator.calibrate(info, route, now=self._settings.clock())
        options["model"] = learned.model
        options["degraded"] = (*resolve_notices(options.get("degraded", ())), *learned.notices)
        if learned.window is not None:
            options["window"] = min(learned.window, options.get("window") or info.window)

    async def _save(self, context: Context, room: str, at: float) -> None:
        snapshot = Snapshot(id=context.id, room=room, at=at, context=context)
        await self._store.save_records([snapshot], share=self._settings.record_share)


def _require_fitted(context: Context) -> Context:
    if not isinstance(context, Context) or not context.inputs.is_fitted:
        what = preview(context) if not isinstance(context, Context) else "one of `assemble`: use `record_response`"
        raise InvalidValue("context", f"must be a context of `fit`, not {what}")
    return context
