"""
title: Brimful
description: Trims long chats to the model's window. The chats themselves never change.
author: Brimful
author_url: https://github.com/brimful/brimful
version: 0.1.0
license: Apache-2.0
requirements: brimful
"""

import asyncio
import logging
from threading import Lock
from typing import Any

from pydantic import BaseModel, Field

import brimful
from brimful.cache import LRU
from brimful.models import default_registry

logger = logging.getLogger("brimful.open_webui")
COUNTED = ("model", "messages", "tools", "tool_choice", "response_format", "max_tokens", "max_completion_tokens")
FIXED = {"tools.trim": False, "completion.gives_way": False}  # only messages change
CONTEXT_BYTES = 100_000  # memory of a context, roughly


class Filter:
    """Fits every request to a model, also those in a tool loop. After an error, the request is sent as it was."""

    class Valves(BaseModel):
        """An administrator's settings."""

        priority: int = Field(default=100, description="Filters with a higher number run later: this one is last.")
        window: int = Field(default=0, ge=0, description="The context window in tokens. 0: that of the model.")
        policy: str = Field(default="", description="A policy. Empty: `agent` if there are tools, else `fit`.")
        store: str = Field(default="", description="A store, such as sqlite:///brimful.db, to record every request in.")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._conversations = brimful.Conversations()
        self._sent: LRU[str, Any] = LRU(max_entries=1_000, name="open-webui", size=lambda _, __: CONTEXT_BYTES)
        self._engines: dict[str, Any] = {}
        self._opening = Lock()

    async def request(self, body: dict[str, Any], __chat_id__: str = "", __model__: Any = None) -> dict[str, Any]:
        """Fit a request. Open WebUI calls this before it sends one."""
        try:
            return await asyncio.to_thread(self._fit, body, __chat_id__ or "", __model__)
        except Exception as error:  # noqa: BLE001 - the chat must go on
            logger.warning("not trimmed: %s", error)
            return body

    async def outlet(self, body: dict[str, Any]) -> dict[str, Any]:
        """Record the usage that the provider reported. Open WebUI calls this after an answer."""
        try:
            await asyncio.to_thread(self._observe, body)
        except Exception as error:  # noqa: BLE001 - the answer is there
            logger.warning("usage is not recorded: %s", error)
        return body

    def _fit(self, body: dict[str, Any], chat: str, model: Any) -> dict[str, Any]:
        asked = {field: body[field] for field in COUNTED if body.get(field) is not None}
        base = ((model or {}).get("info") or {}).get("base_model_id")  # of a model that an administrator made
        asked["model"] = base or asked["model"]
        window = self.valves.window or (body.get("options") or {}).get("num_ctx")
        if not window and default_registry().resolve(asked["model"]).assumed_window:
            logger.warning("not trimmed: the window of %s is not known; set the valve `window`", asked["model"])
            return body
        options: Any = {"window": window or None, "policy": self.valves.policy or None, "overrides": FIXED}
        engine = self.open_store()
        if not chat:  # a request by the API
            context = brimful.fit(asked, **options)
        elif engine is None:
            context = self._conversations.fit(chat, asked, **options)
        else:
            context = self._sent[chat] = engine.fit(asked, conversation=chat, **options)
        return {**body, "messages": context.request["messages"]} if context.is_reduced else body

    def _observe(self, body: dict[str, Any]) -> None:
        context = self._sent.pop(body.get("chat_id") or "")
        usage = next((each["usage"] for each in reversed(body.get("messages") or []) if each.get("usage")), None)
        if context is not None and usage is not None:
            self.open_store().observe(context, conversation=body["chat_id"], usage=usage)

    def open_store(self) -> Any:
        url = self.valves.store
        with self._opening:
            if url and url not in self._engines:
                self._engines[url] = brimful.SyncEngine(url).open()
        return self._engines.get(url)
