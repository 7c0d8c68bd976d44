"""From the shared options to a client: which server this call of `horarium` talks to, and as whom."""

from __future__ import annotations

from horarium.cli import client, options
from horarium.sdk import profile


def open_client(invocation: options.Invocation) -> client.Client:
    """A client for the server and key that options, environment and profile name, in this order."""
    connection = profile.resolve(invocation.url, api_key_file=invocation.api_key_file, profile=invocation.profile)
    return client.Client(connection.urls, connection.api_key)
