"""Which notifications an event asks for, and what they say: the routes of Taskcluster's Notify service, as values.

Nothing here sends or reads anything. A task's text goes into a notice as text alone, of which no mark-up is made.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

TASK_TOPICS = ("task-defined", "task-pending", "task-running", "task-completed", "task-failed", "task-exception")
GROUP_TOPIC = "task-group-resolved"
TOPICS = (*TASK_TOPICS, GROUP_TOPIC)
CHATS = ("slack-channel", "teams")
"""Kinds of routes that lead to a web hook. `teams` is ours; Notify's `matrix-room` and `pulse` lead nowhere here."""
ROUTE = re.compile(r"notify\.(?P<kind>email|slack-channel|teams)\.(?P<address>.+)\.on-(?P<event>[a-z-]+)")
MAX_SUBJECT, MAX_TEXT = 200, 8000
"""The most characters of a subject and of a text, which are cut there."""
_ENDS = ("completed", "failed", "exception")
_UNTOLD = ("canceled", "deadline-exceeded")
"""Reasons of exceptions of which nobody is told, as Notify is configured."""
_VALUE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True)
class Notice:
    """What somebody is to be told. `id` is a UUID, the same when the message is delivered again."""

    id: str
    kind: str
    address: str
    subject: str
    text: str
    link: str
    link_text: str = "Inspect it"

    def whole(self) -> str:
        """Text and link, for whoever shows text alone."""
        return f"{self.text}\n\n{self.link_text}: {self.link}\n" if self.link else f"{self.text}\n"


def about(topic: str, event: Mapping[str, Any]) -> str | None:
    """Id of the task whose routes say who is told: the task itself, or the decision task of a group, which has the
    group's id. None if nobody is told: the run is retried, or somebody has given the task up."""
    if topic == GROUP_TOPIC:
        return str(event["taskGroupId"])
    status, name = event["status"], topic.removeprefix("task-")
    if name in _ENDS and (status["state"] != name or status["runs"][-1].get("reasonResolved") in _UNTOLD):
        return None
    return str(status["taskId"])


def asked_for(topic: str, task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Kind and address of each who is told, once each, by the routes in a task's definition."""
    name = topic.removeprefix("task-")
    told = {name} if topic == GROUP_TOPIC else {name, "transition", *(("any", "resolved") if name in _ENDS else ())}
    found = filter(None, map(ROUTE.fullmatch, task["routes"]))
    return list(dict.fromkeys((each["kind"], each["address"]) for each in found if each["event"] in told))


def notices(
    topic: str,
    event: Mapping[str, Any],
    task: Mapping[str, Any],
    root_url: str,
    message_id: str,
    states: Mapping[str, int] | None = None,
) -> Iterator[Notice]:
    """Yields the notices that an event asks for. `task` is the definition of the task that `about` names; `states`
    counts a group's tasks by state."""
    own = _of_group(event, task, root_url, states or {}) if topic == GROUP_TOPIC else _of_task(event, task, root_url)
    for kind, address in asked_for(topic, task):
        said = own if topic == GROUP_TOPIC else {**own, **_custom(kind, event, task, root_url)}
        yield Notice(
            id=str(uuid5(NAMESPACE_URL, f"{message_id}/{kind}/{address}")),
            kind=kind,
            address=address,
            subject=_line(said["subject"])[:MAX_SUBJECT],
            text=_plain(said["text"])[:MAX_TEXT],
            link=said["link"],
            link_text=_line(said["link_text"])[:MAX_SUBJECT],
        )


def _of_task(event: Mapping[str, Any], task: Mapping[str, Any], root_url: str) -> dict[str, str]:
    status, metadata = event["status"], task["metadata"]
    state, reason = status["state"], status["runs"][-1].get("reasonResolved", "") if status["runs"] else ""
    facts = [f"{name.capitalize()}: {metadata[name]}" for name in ("name", "description", "owner", "source")]
    if reason not in ("", state):
        facts.insert(0, f"Reason: {reason}")
    return {
        "subject": f"Task {state}: {metadata['name']} - {status['taskId']}",
        "text": "\n".join([f"Task {status['taskId']} of group {status['taskGroupId']} is {state}.", "", *facts]),
        "link": f"{root_url}/tasks/{status['taskId']}",
        "link_text": "Inspect the task",
    }


def _of_group(
    event: Mapping[str, Any], task: Mapping[str, Any], root_url: str, states: Mapping[str, int]
) -> dict[str, str]:
    group_id, metadata = event["taskGroupId"], task["metadata"]
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return {
        "subject": f"Group resolved: {metadata['name']}, {counts}",
        "text": f"All tasks of group {group_id} are resolved: {counts}.\n\nName: {metadata['name']}\n"
        f"Owner: {metadata['owner']}\nSource: {metadata['source']}",
        "link": f"{root_url}/tasks/groups/{group_id}",
        "link_text": "Inspect the group",
    }


def _custom(kind: str, event: Mapping[str, Any], task: Mapping[str, Any], root_url: str) -> dict[str, str]:
    """Returns what `extra.notify` of a task's definition says in place of the usual subject, text and link."""
    extra = _map(task["extra"].get("notify"))
    own = _map(extra.get("email")) if kind == "email" else {"content": extra.get("slackText")}
    status = event["status"]
    context = {"task": task, "status": status, "taskId": status["taskId"], "rootUrl": root_url}
    names = {"subject": "subject", "content": "text"}
    said = {names[key]: rendered(text, context) for key, text in own.items() if key in names and isinstance(text, str)}
    link = _map(own.get("link"))
    if "link" in own:
        href = rendered(str(link.get("href", "")), context)
        said["link"] = href if re.fullmatch(r"https?://[^\s<>\"]+", href) else ""
        said["link_text"] = rendered(str(link.get("text", "Inspect it")), context)
    return said


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """Returns a text with each `${name.of.a.value}` replaced. Of JSON-e that is all: its other operators let a task's
    author compute for as long as they like. What has no value stays as it is written."""

    def value(match: re.Match[str]) -> str:
        found: Any = context
        for word in match[1].strip().split("."):
            if word not in _map(found):
                return match[0]
            found = found[word]
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

    return _VALUE.sub(value, template)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _line(text: str) -> str:
    """Returns the text as one line, without characters that a reader does not see."""
    return " ".join(_plain(text).split())


def _plain(text: str) -> str:
    """Returns the text without control characters, and without those that turn or hide what follows them."""
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cf"))


def allowed(address: str, domains: frozenset[str]) -> bool:
    """Whether mail may be sent to an address: a plain one, in one of these domains (in lower case)."""
    name, at, domain = address.rpartition("@")
    return bool(at and domain.lower() in domains and re.fullmatch(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}", name, re.ASCII))


def mail(notice: Notice, sender: str) -> dict[str, Any]:
    """Returns the body of Communication Services' call `emails:send`: plain text, without tracking of readers."""
    return {
        "senderAddress": sender,
        "recipients": {"to": [{"address": notice.address}]},
        "content": {"subject": notice.subject, "plainText": notice.whole()},
        "userEngagementTrackingDisabled": True,
    }


def chat(notice: Notice) -> dict[str, Any]:
    """Returns the body for a web hook of Slack, in blocks of plain text, or of Teams, in a card of text runs, which
    unlike text blocks know no Markdown."""
    if notice.kind == "slack-channel":
        blocks = [_slack_section(f"{notice.subject}\n\n{notice.text}")]
        if notice.link:
            button = {"type": "button", "text": _slack_text(notice.link_text, 75), "url": notice.link}
            blocks.append({"type": "actions", "elements": [button]})
        shown = notice.subject.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": shown, "mrkdwn": False, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}
    lines = [_teams_line(notice.subject, weight="Bolder"), *map(_teams_line, notice.text.splitlines())]
    card: dict[str, Any] = {"type": "AdaptiveCard", "version": "1.4", "body": lines}
    if notice.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": notice.link_text, "url": notice.link}]
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [content]}


def _slack_section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _slack_text(text, 3000)}


def _slack_text(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": text[:most], "emoji": False}


def _teams_line(text: str, **style: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}
