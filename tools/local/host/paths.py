"""What becomes of a request's path on its way to a function (design 8).

ASP.NET decodes the path, all but `%2F`, matches routes against that, and encodes it again for the URL that the
function sees. So even locally a function does not see the encoding that the client chose. Deployed, the front end
has decoded `%2F` as well, and passes the target as it came in two headers.
"""

import re
from urllib.parse import quote

RAW_URL_HEADERS = ("x-original-url", "x-waws-unencoded-url")

_ENCODED_RUN = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ENCODED_SLASH = re.compile(r"(%2[Ff])")
_TO_ENCODE = re.compile(r"%[0-9A-Fa-f]{2}|[^%]+|%")
_KEPT = "!$&'()*+,-./:;=@_~"
"""What ASP.NET leaves as it is in a path, besides letters and digits."""


class BadPath(ValueError):
    """The path cannot be decoded: it holds a NUL."""


def decode_path(raw: str, *, slashes: bool) -> str:
    """Returns the path that routes are matched against. `slashes` says whether `%2F` is decoded too, as deployed
    Functions do. What is not valid UTF-8 stays encoded. Dot segments are resolved as Kestrel does; those that appear
    only when `%2F` is decoded are not. Raises BadPath on an encoded NUL."""
    if "%00" in raw:
        raise BadPath("a path must not hold %00")
    kept: list[str] = []
    segments = raw.split("/")
    for position, segment in enumerate(segments):
        match _decode(segment, slashes=False):
            case ".":
                pass
            case "..":
                del kept[max(1, len(kept) - 1) :]
            case _:
                kept.append(segment)
                continue
        if position == len(segments) - 1:
            kept.append("")
    return "/".join(_decode(segment, slashes=slashes) for segment in kept)


def encode_path(path: str) -> str:
    """Returns the path as ASP.NET puts it into the URL; a valid `%XX` in it is left as it is."""
    return "".join(
        token if len(token) == 3 and token[0] == "%" else quote(token, safe=_KEPT) for token in _TO_ENCODE.findall(path)
    )


def _decode(text: str, *, slashes: bool) -> str:
    return _ENCODED_RUN.sub(lambda run: _decode_run(run[0], slashes=slashes), text)


def _decode_run(run: str, *, slashes: bool) -> str:
    if slashes:
        return _decode_bytes(run)
    pieces = _ENCODED_SLASH.split(run)
    return "".join(piece if odd % 2 else _decode_bytes(piece) for odd, piece in enumerate(pieces))


def _decode_bytes(run: str) -> str:
    data = bytes.fromhex(run.replace("%", ""))
    text = ""
    position = 0
    while position < len(data):
        try:
            return text + data[position:].decode()
        except UnicodeDecodeError as error:
            bad, end = position + error.start, position + error.end
            text += data[position:bad].decode() + run[3 * bad : 3 * end]
            position = end
    return text
