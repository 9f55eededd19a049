"""The token that a virtual board's server asks of its clients, and how one comes to PYNQ's own client."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Variable that gives server and clients the token.
TOKEN_VARIABLE = "BFPGA_TOKEN"
#: Key of the token among the metadata of a call.
TOKEN_KEY = "bfpga-token"
#: What the server answers to a call without it.
TOKEN_WANTED = f"the virtual board asks for its token: set {TOKEN_VARIABLE} to what its server printed at its start"

#: What gRPC has of a call that begins.
_DETAILS = ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression")


@contextmanager
def carrying(token: str, client_module: Any) -> Iterator[None]:
    """Channels that PYNQ's client opens in the block carry the token, whatever is called on them later.

    client_module: `pynq.pl_server.remote_device`. Its client has no way to say a token: it opens a plain channel, and
    makes the first calls before anybody can have it. So that module, and no other, has another `insecure_channel`.
    """
    grpc = client_module.grpc
    channels = types.SimpleNamespace(**{**vars(grpc), "insecure_channel": _opener(grpc, token)})
    client_module.grpc = channels if token else grpc
    try:
        yield
    finally:
        client_module.grpc = grpc


def _opener(grpc: Any, token: str) -> Callable[..., Any]:
    """What opens a channel whose calls carry the token."""

    def with_token(details: Any) -> Any:
        return changed(grpc, details, metadata=[*(details.metadata or ()), (TOKEN_KEY, token)])

    carrier = interceptor(grpc, with_token)
    return lambda *arguments, **options: grpc.intercept_channel(grpc.insecure_channel(*arguments, **options), carrier)


def interceptor(grpc: Any, change: Callable[[Any], Any]) -> Any:
    """An interceptor of gRPC that changes the details of every call of PYNQ's client."""

    class Interceptor(
        grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
        grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
        grpc.StreamUnaryClientInterceptor,  # type: ignore[misc]
    ):
        """Goes on with the changed details."""

        def intercept_unary_unary(self, proceed: Callable[..., Any], details: Any, request: Any) -> Any:
            return proceed(change(details), request)

        intercept_unary_stream = intercept_stream_unary = intercept_unary_unary

    return Interceptor()


def changed(grpc: Any, details: Any, **changes: Any) -> Any:
    """The details of a call with other values of some."""
    result = type("Details", (grpc.ClientCallDetails,), {})()
    for name in _DETAILS:
        setattr(result, name, changes.get(name, getattr(details, name, None)))
    return result
