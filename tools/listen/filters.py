"""Routing-key patterns as Service Bus rules (contract 10: `*` is one word, `#` is zero or more).

A pattern matches a message if it matches its primary key or any of its `route.…` keys; the subscription gets one copy
in any case, as rules without actions are joined by OR. The rules are exact: what they cannot say is a PatternError.

The primary key has a fixed number of words, so a pattern is turned into the ways in which its words can stand in it.
If there is one way, a correlation filter does; these are the cheap ones. Patterns of custom routes become LIKE
conditions over the properties that `shared.queue.events.rules` describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.queue.events.exchanges import ENTRIES, EXCHANGE_PREFIX, TOPICS, ExchangeEntry, Word
from shared.queue.events.rules import MAX_ROUTES, ROUTES, Exchange, escape, number, slot

MAX_PATTERN = 255
"""The most characters of a pattern, as AMQP has it."""

MAX_SQL = 1024
"""The most characters of a SQL filter."""

MAX_RULES = 64
"""The most rules that one pattern may take. Each is an evaluation, and on Standard a credit, for every message."""

ENTRY_OF = {entry.exchange: entry for entry in ENTRIES}
_STAR, _HASH = "*", "#"
_ESCAPES = r"\^!$@&;"
_WILDCARD = re.compile("[%_]")
_KEY_WORD = re.compile(r"[A-Za-z0-9_-]+")


def parse_exchange(name: str) -> Exchange:
    """Returns an exchange by its short name, its full name or its name in the reference. Raises ValueError that lists
    the short names."""
    short = name.removeprefix(EXCHANGE_PREFIX)
    for entry in ENTRIES:
        if short in (entry.exchange.value, entry.name):
            return entry.exchange
    raise ValueError(f"there is no exchange {name!r}; the exchanges are {', '.join(TOPICS)}")


class PatternError(ValueError):
    """The pattern cannot be turned into rules; the message says why."""


@dataclass(frozen=True, slots=True)
class TrueRule:
    """Matches every message of the topic."""


@dataclass(frozen=True, slots=True)
class CorrelationRule:
    """Matches messages that have all these application properties with these values."""

    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SqlRule:
    """Matches messages for which the SQL expression is true."""

    expression: str


Rule = TrueRule | CorrelationRule | SqlRule


def rules_for(exchange: Exchange, pattern: str) -> tuple[Rule, ...]:
    """Returns the rules that together select what the pattern does. Raises PatternError."""
    entry = ENTRY_OF[exchange]
    tokens = _tokens(pattern)
    ways = _minimal(_ways(tokens, entry.routing_key))
    if frozenset() in ways:
        return (TrueRule(),)
    has_routes = entry.words[1] == "taskId"
    routes = _route_conditions(_after_first_word(tokens, "route")) if has_routes else []
    if not ways and not routes:
        routeless = "" if has_routes else "; messages about groups have no custom routes"
        raise PatternError(f"no message of {exchange.value} matches: its key is {_shape(entry)}{routeless}")
    if len(ways) == 1 and not routes:
        return (CorrelationRule(dict(_in_order(next(iter(ways)), entry))),)
    return _pack([*(_conjunction(_in_order(way, entry)) for way in _sorted(ways, entry)), *routes])


def pattern_for(exchange: Exchange, words: Mapping[str, str]) -> str:
    """Returns the pattern of a primary key with these words given, as the clients build it: `*` or `#` for the others.

    Raises PatternError for a name that the exchange's key does not have, and for a value that is not one word.
    """
    entry = ENTRY_OF[exchange]
    unknown = sorted(set(words) - set(entry.words[1:]))
    if unknown:
        raise PatternError(f"{exchange.value} has no word {', '.join(unknown)}: it has {', '.join(entry.words[1:])}")
    for name, value in words.items():
        if not _KEY_WORD.fullmatch(value):
            raise PatternError(f"{name} {value!r} is not one word of A-Z a-z 0-9 _ -")
    return ".".join(
        word.constant or words.get(word.name, _HASH if word.multiple_words else _STAR) for word in entry.routing_key
    )


def _tokens(pattern: str) -> tuple[str, ...]:
    """Returns the words of the pattern; in a run of wildcards that has a `#`, the stars come first and `#` once."""
    if not pattern or len(pattern) > MAX_PATTERN:
        raise PatternError(f"a pattern has 1 to {MAX_PATTERN} characters, not {len(pattern)}")
    if not all(_is_plain(character) for character in pattern):
        raise PatternError("a pattern with control characters cannot be a Service Bus rule")
    tokens: list[str] = []
    for word in pattern.split("."):
        if word == _STAR and tokens and tokens[-1] == _HASH:
            tokens.insert(-1, _STAR)
        elif word != _HASH or not tokens or tokens[-1] != _HASH:
            tokens.append(word)
    return tuple(tokens)


def _is_plain(character: str) -> bool:
    """Returns whether XML, in which rules are written, keeps the character as it is."""
    code = ord(character)
    return code >= 0x20 and not 0x7F <= code <= 0x9F and not 0xD800 <= code <= 0xDFFF and code & 0xFFFE != 0xFFFE


def _shape(entry: ExchangeEntry) -> str:
    return ".".join(word.constant or f"<{word.name}>" for word in entry.routing_key)


Way = frozenset[tuple[str, str]]
"""One way in which a pattern matches: words of the key, by name, with the values that they have to have."""


def _ways(tokens: Sequence[str], key: Sequence[Word]) -> set[Way]:
    """Returns every way to lay the tokens over the words of the primary key."""
    ways: list[set[Way]] = [set() for _ in range(len(key) + 1)]
    ways[0].add(frozenset())
    for token in tokens:
        following: list[set[Way]] = [set() for _ in range(len(key) + 1)]
        for position, reached in enumerate(ways):
            if token == _HASH:
                for end in range(position, len(key) + 1):
                    following[end] |= reached
            elif position < len(key) and _may_be(key[position], token):
                known = token == _STAR or _fixed(key[position]) is not None
                added: Way = frozenset() if known else frozenset({(key[position].name, token)})
                following[position + 1] |= {way | added for way in reached}
        ways = [_minimal(reached) for reached in following]
    return ways[len(key)]


def _may_be(word: Word, token: str) -> bool:
    fixed = _fixed(word)
    if token == _STAR:
        return True
    if fixed is not None:
        return token == fixed
    return len(token) <= word.max_size and _KEY_WORD.fullmatch(token) is not None


def _fixed(word: Word) -> str | None:
    """Returns the value of a word that is the same in every message."""
    return "_" if word.multiple_words else word.constant


def _minimal(ways: Iterable[Way]) -> set[Way]:
    """Returns the ways without those that ask for more than another one does."""
    kept: set[Way] = set()
    for way in sorted(ways, key=len):
        if not any(other <= way for other in kept):
            kept.add(way)
    return kept


def _in_order(way: Way, entry: ExchangeEntry) -> list[tuple[str, str]]:
    return sorted(way, key=lambda item: entry.words.index(item[0]))


def _sorted(ways: Iterable[Way], entry: ExchangeEntry) -> list[Way]:
    return sorted(ways, key=lambda way: [(entry.words.index(name), value) for name, value in _in_order(way, entry)])


def _conjunction(words: Sequence[tuple[str, str]]) -> str:
    return "(" + " AND ".join(f"{name} = '{value}'" for name, value in words) + ")"


def _after_first_word(tokens: tuple[str, ...], word: str) -> list[tuple[str, ...]]:
    """Returns what is left of the pattern for the rest of a key that begins with `word`; a route has at least one
    word."""
    left: list[tuple[str, ...]] = []
    while tokens:
        head, tokens = tokens[0], tokens[1:]
        if head == _HASH:
            left.append((_HASH, *tokens))
        elif head in (_STAR, word):
            left.append(tokens)
            break
        else:
            break
    return [pattern for pattern in dict.fromkeys(left) if pattern]


def _route_conditions(patterns: Sequence[tuple[str, ...]]) -> list[str]:
    conditions: list[str] = []
    for tokens in patterns:
        if tokens in ((_HASH,), (_STAR, _HASH)):
            return [f"EXISTS({ROUTES})"]
        words = tokens[tokens[0] == _HASH : len(tokens) - (tokens[-1] == _HASH)]
        if _STAR not in words and _HASH not in words:
            conditions.append(_anywhere(tokens, words))
        else:
            like = _like(_one_route(tokens), "".join(tokens))
            conditions += [f"{slot(index)} {like}" for index in range(MAX_ROUTES)]
    return conditions


def _anywhere(tokens: Sequence[str], words: Sequence[str]) -> str:
    """Returns the condition that a run of whole words occurs somewhere in `routes`."""
    start = "" if tokens[0] == _HASH else "|"
    end = "" if tokens[-1] == _HASH else "|"
    literal = start + "".join(f".{escape(word)}" for word in words) + "." + end
    return f"{ROUTES} {_like(['%', literal, '%'], literal)}"


def _one_route(tokens: Sequence[str]) -> list[str]:
    """Returns the LIKE pattern for a property with a single route: literals and wildcards in turn.

    Up to the first `#` words are at known numbers, and a `%` between two numbers cannot leave its word. After it the
    numbers are not known (`__`), so a `*` is exact only beside a `#`, where it means "at least one more word".
    """
    parts: list[str] = []
    position: int | None = 0
    for index, token in enumerate(tokens):
        if token == _HASH:
            parts.append("%")
            position = None
            continue
        if token == _STAR and position is None and not _leads_to_hash(tokens, index):
            raise PatternError(
                "a * behind a # cannot be expressed, unless another # follows it: "
                "use a pattern for each number of words"
            )
        parts.append("__" if position is None else number(position))
        parts += ["|", "%", "."] if token == _STAR else [f"|{escape(token)}."]
        position = None if position is None else position + 1
    if tokens[-1] != _HASH:
        parts.append("__" if position is None else number(position))
    return parts


def _leads_to_hash(tokens: Sequence[str], index: int) -> bool:
    following = [token for token in tokens[index:] if token != _STAR]
    return bool(following) and following[0] == _HASH


def _like(parts: Sequence[str], literal: str) -> str:
    """Returns a LIKE condition with these parts, of which only `%` and `__` are wildcards."""
    sign = next((sign for sign in _ESCAPES if sign not in literal), None)
    if sign is None:
        raise PatternError(f"the pattern has all of {_ESCAPES}, so that no escape character is left")
    escaped = [part if part in ("%", "__") else _WILDCARD.sub(lambda match: sign + match[0], part) for part in parts]
    text = "".join(escaped)
    quoted = text.replace("'", "''")
    return f"LIKE '{quoted}'" + (f" ESCAPE '{sign}'" if sign in text else "")


def _pack(conditions: Sequence[str]) -> tuple[SqlRule, ...]:
    """Joins the conditions by OR, in as few rules as their length allows."""
    rules: list[str] = []
    for condition in conditions:
        assert len(condition) <= MAX_SQL, "MAX_PATTERN bounds every condition"
        if rules and len(rules[-1]) + len(" OR ") + len(condition) <= MAX_SQL:
            rules[-1] += f" OR {condition}"
        else:
            rules.append(condition)
    if len(rules) > MAX_RULES:
        raise PatternError(
            f"the pattern would take {len(rules)} rules; {MAX_RULES} is the limit: make it more specific"
        )
    return tuple(SqlRule(rule) for rule in rules)
