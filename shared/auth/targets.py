"""Which request targets a client may have signed, when the platform has changed the percent-encoding (design 8).

Pure. Hawk signs the path as sent, while the Functions host decodes and encodes it again on its way to Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes

_RAW_HEADERS = ("x-waws-unencoded-url", "x-original-url")
"""Where App Service's front end passes on the target as it came."""

_CLIENT_ENCODINGS = (
    "",  # Python's client
    "!*'()~",  # encodeURIComponent
    "!*()~",  # Node's client
    "$&+=:@~",  # Go's url.PathEscape
    "/",  # the same four with raw slashes, which several routes accept (contract 1.4)
    "/!*'()~",
    "/!*()~",
    "/$&+=:@~",
    "/:@!$&'()*+,;=~",  # a URL typed by hand: everything that may stand in a path as it is
)
"""What clients leave unescaped in a route argument, besides letters, digits and `_.-~`."""

_RESERVED = frozenset("!$&'()*+,;=:@")
"""What some clients leave unescaped in a route argument, and others do not."""

_ARGUMENT = re.compile(r"<([^<>]+)>")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_ENCODED_PERCENT = re.compile(r"%25(?=[0-9A-Fa-f]{2})")
_DOT = re.compile(r"(?<=/)(?:\.|%2[Ee])(?:/|\Z)")
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


def target_of(url: str) -> str:
    """Path and query of a URL or of a request target, their encoding untouched."""
    target = _ORIGIN.sub("", url).partition("#")[0]
    return target if target.startswith("/") else f"/{target}"


def raw_target(url: str, headers: Mapping[str, str]) -> str | None:
    """The target as it was on the request line, if the platform passes it on; header names in lower case.

    A client that can reach the app directly can send these headers itself. Therefore one counts only if it means the
    same as the URL that was routed.
    """
    routed = target_of(url)
    for name in _RAW_HEADERS:
        if headers.get(name):
            candidate = target_of(headers[name])
            if any(same_meaning(shown, routed) for shown in (candidate, _as_shown(candidate), _undotted(candidate))):
                return candidate
    return None


def _as_shown(target: str) -> str:
    """What the host makes of a path in which an encoded percent sign stands before two hexadecimal digits.

    It decodes the path, and then takes these three characters for an encoded one.
    """
    path, mark, query = target.partition("?")
    return _ENCODED_PERCENT.sub("%", path) + mark + query


def _undotted(target: str) -> str:
    """The target without segments of a single dot, which the host leaves out of a path."""
    path, mark, query = target.partition("?")
    return _DOT.sub("", path) + mark + query


def signed_targets(url: str, headers: Mapping[str, str], *, route: str = "", params: Mapping[str, str]) -> list[str]:
    """The targets that a client may have signed for this request, the likeliest first; each means the routed one.

    `route` is the endpoint's whole path with `<param>` placeholders, and `params` are their decoded values.
    """
    raw = raw_target(url, headers)
    if raw is not None:
        # Node's client signs what url.parse returns, in which an apostrophe is encoded, and sends it as it is.
        return list(dict.fromkeys([raw, raw.replace("'", "%27")]))
    routed = target_of(url)
    _, mark, query = routed.partition("?")
    candidates = [routed]
    for safe in _CLIENT_ENCODINGS:
        candidates.append(_rendered(route, params, safe) + mark + query)
    return [candidate for candidate in dict.fromkeys(candidates) if same_meaning(candidate, routed)]


def is_ambiguous(url: str, headers: Mapping[str, str], params: Mapping[str, str]) -> bool:
    """Whether `signed_targets` may lack the one that the client signed, since the platform has decoded the path.

    Of a single character that clients treat differently it has both spellings, but not every mixture of several.
    """
    if raw_target(url, headers) is not None:
        return False
    text = "".join(params.values())
    return len(_RESERVED & set(text)) > 1 or _ENCODED.search(text) is not None


def _rendered(route: str, params: Mapping[str, str], safe: str) -> str:
    return _ARGUMENT.sub(lambda match: quote(params[match[1]], safe=safe), route)


def same_meaning(target: str, other: str) -> bool:
    """Whether two targets decode to the same path and to the same query parameters, in order."""
    path, _, query = target.partition("?")
    other_path, _, other_query = other.partition("?")
    return unquote_to_bytes(path) == unquote_to_bytes(other_path) and (
        query == other_query or _parameters(query) == _parameters(other_query)
    )


def _parameters(query: str) -> list[tuple[bytes, bytes]]:
    # By hand: urllib's parsers decode to text, where different bytes can become the same replacement character.
    names_and_values = (parameter.partition("=") for parameter in query.split("&") if parameter)
    return [(_decoded(name), _decoded(value)) for name, _, value in names_and_values]


def _decoded(text: str) -> bytes:
    return unquote_to_bytes(text.replace("+", " "))
