"""A chat service with FastAPI: answers are streamed, and every user is remembered.

    pip install "brimful[remote]" fastapi uvicorn
    MODEL=gpt-4o-mini uvicorn --app-dir examples fastapi_chat:app  # needs OPENAI_API_KEY
    MODEL=llama3.2:3b uvicorn --app-dir examples fastapi_chat:app  # with Ollama
    curl -N http://127.0.0.1:8000/chat/ada -H 'content-type: application/json' -d '{"text": "Hello!", "id": "m1"}'

The tutorial builds it step by step, with a page for the browser.
"""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, StringConstraints

import brimful
from brimful.errors import InvalidValue, ProviderError
from brimful.protocols import Provider
from brimful.records import Persona, Room

NOVA = Persona(id="nova", name="Nova", prompt="You are Nova, the assistant of Harbour Coffee. Answer briefly.")


NotBlank = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Message(BaseModel):
    """A message of a user. The client makes the id, so that a message that is sent twice is stored once."""

    text: NotBlank
    id: NotBlank


def make_app(store: str, model: str, provider: str | Provider = "") -> FastAPI:
    """Return the service. Without a provider, the model's own API is called."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with brimful.Engine(store, model=model, provider=provider) as engine:
            await engine.put(NOVA)
            app.state.engine = engine
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/chat/{user}")
    async def chat(user: NotBlank, message: Message) -> StreamingResponse:
        """Stream the answer to a message."""
        engine: brimful.Engine = app.state.engine
        try:
            room = Room(id=f"web-{user}", user=user, persona=NOVA.id)
            await engine.put(room)
            posted = await engine.post(room=room.id, text=message.text, sender=user, id=message.id)
        except InvalidValue as error:
            raise HTTPException(422, str(error)) from None
        if posted.text != message.text:
            raise HTTPException(409, f"{message.id!r} is the id of another message")

        async def chunks() -> AsyncIterator[str]:
            try:
                async with engine.stream(room.id, posted, sender=user) as stream:
                    async for chunk in stream:
                        yield chunk.text
            except ProviderError:
                logging.getLogger(__name__).exception("no answer in %s", room.id)
                yield "I cannot answer right now. Please try again later."

        return StreamingResponse(chunks(), media_type="text/plain")

    @app.get("/chat/{user}")
    async def history(user: NotBlank) -> list[dict[str, str]]:
        """Return the last messages, oldest first."""
        found = await app.state.engine.store.history(f"web-{user}", limit=50)
        messages = [each.message for each in reversed(found) if not each.message.superseded]
        return [{"sender": message.sender, "text": message.text} for message in messages if message.text]

    return app


app = make_app(os.environ.get("BRIMFUL_DB", "sqlite:///brimful.db"), os.environ.get("MODEL", "gpt-4o-mini"))
