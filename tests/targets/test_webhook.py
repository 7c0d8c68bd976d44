"""Signatures, checked by the reference implementation of Standard Webhooks."""

from __future__ import annotations

import base64
import secrets
import time

import pytest
import standardwebhooks

from horarium.targets import webhook


@pytest.mark.parametrize("length", [24, 25, 32, 64])
def test_the_reference_implementation_accepts_our_signature(length: int) -> None:
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(length)).decode()
    body = '{"größe": 1}'.encode()
    headers = webhook.headers(secret, "run-1", int(time.time()), body)
    assert standardwebhooks.Webhook(secret).verify(body, headers) == {"größe": 1}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(body + b" ", headers)


def test_the_example_of_the_specification() -> None:
    headers = webhook.headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_of_another_form_is_taken_as_it_is() -> None:
    assert webhook.key_of("plain text ä") == "plain text ä".encode()
    assert webhook.key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") == base64.b64decode(
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    )
