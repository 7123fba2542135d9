"""Calls that type checkers refuse. `make lint` fails if one becomes allowed, because its comment is unused then."""

from brimful import Engine, SyncEngine


async def pass_a_number(engine: Engine, sync: SyncEngine) -> None:
    await engine.respond("tea", 42)  # type: ignore[arg-type]
    engine.stream("tea", 42)  # type: ignore[arg-type]
    sync.respond("tea", 42)  # type: ignore[arg-type]
    await engine.post(room="tea", text=42)  # type: ignore[arg-type]
