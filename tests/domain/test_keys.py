"""API keys: what is minted is parsed again, and nothing else is."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import keys

ENTROPY = bytes(range(40))
ENVS = st.from_regex(r"[a-z][a-z0-9]{0,15}", fullmatch=True)


@given(ENVS, st.binary(min_size=40, max_size=40))
def test_a_minted_key_is_parsed_again(env: str, entropy: bytes) -> None:
    key = keys.mint(env, entropy)
    assert keys.parse(key.token) == key
    assert key.token.startswith(f"hrm_{env}_{key.id}_")


def test_the_shape_is_the_documented_one() -> None:
    key = keys.mint("live", ENTROPY)
    prefix, env, identifier, rest = key.token.split("_")
    assert (prefix, env, identifier) == ("hrm", "live", key.id)
    assert len(identifier) == 12
    assert len(rest) == 32 + 6


def test_other_entropy_gives_another_id_and_another_secret() -> None:
    one, other = keys.mint("live", ENTROPY), keys.mint("live", bytes(reversed(ENTROPY)))
    assert one.id != other.id
    assert one.token[-38:] != other.token[-38:]


@given(
    st.integers(min_value=0, max_value=61),
    st.sampled_from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"),
)
def test_one_wrong_character_is_noticed(place: int, character: str) -> None:
    token = keys.mint("live", ENTROPY).token
    place %= len(token)
    changed = token[:place] + character + token[place + 1 :]
    assert (keys.parse(changed) is None) == (changed != token)


@pytest.mark.parametrize(
    "token", ["", "hrm", "hrm_live", "hrm_live_a_b", "Bearer x", "hrm_LIVE_" + "a" * 12 + "_" + "b" * 38]
)
def test_what_is_no_key_is_refused(token: str) -> None:
    assert keys.parse(token) is None


def test_a_line_end_behind_a_key_is_no_key() -> None:
    assert keys.parse(keys.mint("live", ENTROPY).token + "\n") is None


def test_the_secret_is_not_in_the_repr() -> None:
    key = keys.mint("live", ENTROPY)
    assert key.token not in repr(key)
    assert key.id in repr(key)


def test_the_digest_is_the_sha256_of_the_whole_token() -> None:
    token = keys.mint("live", ENTROPY).token
    assert keys.digest(token) == hashlib.sha256(token.encode()).digest()


@pytest.mark.parametrize("env", ["", "Live", "1a", "a_b", "a" * 17, "é"])
def test_a_bad_env_is_refused(env: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        keys.mint(env, ENTROPY)


def test_too_little_entropy_is_refused() -> None:
    with pytest.raises(ValueError, match="entropy"):
        keys.mint("live", b"short")
