"""Actions that a decision task offers: shown before they are sent, with its scopes at most, whatever its file says."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment, temporary
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import Scene

FILE = "public/actions.json"
MENU = "Actions of the project"


def _template(task_queue: str, *scopes: str) -> dict[str, Any]:
    """Returns what a task of an action is made of."""
    return {
        "taskQueueId": task_queue,
        "schedulerId": "tests",
        "taskGroupId": {"$eval": "taskGroupId"},
        "scopes": list(scopes),
        "created": {"$fromNow": ""},
        "deadline": {"$fromNow": "1 hour"},
        "payload": {"command": ["again", {"$eval": "taskId"}, {"$eval": "input"}]},
        "metadata": {"name": "again", "description": "", "owner": "me@example.com", "source": "https://example.com"},
    }


def _action(name: str = "again", **changes: Any) -> dict[str, Any]:
    action = {"kind": "task", "name": name, "title": f"Do {name}", "description": "Runs it.", "context": [{}]}
    return {**action, "task": {}, **changes}


def _offer(scene: Scene, content: bytes | Sequence[Any], scopes: Sequence[str] = ()) -> str:
    """Creates a group whose decision task has these scopes and offers this; returns the id of a task in it."""
    scene.create("decision", task_id=scene.group, scopes=list(scopes))
    scene.claim("decision")
    if not isinstance(content, bytes):
        content = json.dumps({"version": 1, "actions": content, "variables": {}}).encode()
    scene.upload("decision", FILE, content, "application/json")
    scene.complete("decision")
    return scene.create("build")


def _choose(page: Page, title: str) -> Locator:
    page.get_by_text(MENU).click()
    page.get_by_role("button", name=title, exact=True).click()
    return page.get_by_role("dialog")


def _creations(watch: Watch) -> list[Any]:
    """Returns the calls of createTask: id, definition and restriction of each."""
    calls = []
    for request in watch.requests:
        if request.method == "PUT":
            found = re.search('ext="([^"]*)"', request.headers["authorization"])
            restriction = json.loads(base64.b64decode(found[1])) if found else {}
            calls.append((request.url.rpartition("/")[2], request.post_data_json, restriction))
    return calls


def _may_create(scene: Scene) -> list[str]:
    """Returns scopes with which a decision task creates tasks for the scene's task queue."""
    return [
        f"queue:create-task:lowest:{scene.task_queue}",
        "queue:scheduler-id:tests",
        "queue:create-task:project:none",
        "secrets:get:a",
    ]


def test_an_action_is_shown_and_then_created_with_the_scopes_of_the_decision_task(
    scene: Scene, open_page: OpenPage, watch: Watch
) -> None:
    scopes = _may_create(scene)
    build = _offer(scene, [_action(task=_template(scene.task_queue, "secrets:get:a"))], scopes)
    page = open_page(f"/tasks/{build}")
    dialog = _choose(page, "Do again")
    expect(dialog.get_by_role("list")).to_have_text("secrets:get:a")
    shown = dialog.locator("pre")
    expect(shown).to_contain_text(
        re.compile(rf"^scopes:\n.*secrets:get:a\n.*taskQueueId: {scene.task_queue}", re.DOTALL)
    )
    expect(shown).to_contain_text(f"- {build}")
    assert _creations(watch) == [], "nothing is sent before it was shown"
    dialog.get_by_role("button", name="Create the action task").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("again")
    [(task_id, sent, restriction)] = _creations(watch)
    assert page.url.endswith(task_id)
    assert restriction == {"authorizedScopes": scopes}
    made = scene.client().task(task_id)
    assert (made["scopes"], made["taskGroupId"]) == (["secrets:get:a"], scene.group)
    assert made["payload"] == sent["payload"] == {"command": ["again", build, None]}


def test_an_action_gets_nothing_that_its_decision_task_has_not(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    """Though root presses the button: of a stranger's decision task, which has no scopes."""
    build = _offer(scene, [_action(task=_template("release/signing", "auth:*"))])
    page = open_page(f"/tasks/{build}")
    dialog = _choose(page, "Do again")
    expect(dialog.get_by_role("list")).to_have_text("auth:*")
    dialog.get_by_role("button", name="Create the action task").click()
    expect(dialog.get_by_role("alert")).to_contain_text("may not do this")
    [(task_id, _, restriction)] = _creations(watch)
    assert restriction == {"authorizedScopes": []}
    assert scene.deployment.python("task", task_id, service="Queue", credentials=scene.deployment.root).status == 404


@pytest.mark.large
def test_who_lacks_a_scope_of_the_decision_task_is_told_so(
    scene: Scene, deployment: Deployment, open_page: OpenPage
) -> None:
    build = _offer(scene, [_action(task=_template(scene.task_queue))], _may_create(scene))
    reader = deployment.new_client("queue:get-task:*", "queue:status:*", "queue:get-artifact:*", "queue:list-*")
    dialog = _choose(open_page(f"/tasks/{build}", reader), "Do again")
    dialog.get_by_role("button", name="Create the action task").click()
    expect(dialog.get_by_role("alert")).to_contain_text("you need all of these. You lack queue:create-task")


@pytest.mark.large
def test_scopes_that_no_request_can_carry_are_named_as_the_reason(
    scene: Scene, deployment: Deployment, open_page: OpenPage
) -> None:
    """Those of the viewer's certificate and of the decision task go into one header."""
    scopes = [f"secrets:get:{number:0100}" for number in range(13)]
    build = _offer(scene, [_action(task=_template(scene.task_queue))], scopes)
    viewer = temporary(deployment.root, "queue:*", *scopes)
    dialog = _choose(open_page(f"/tasks/{build}", viewer), "Do again")
    dialog.get_by_role("button", name="Create the action task").click()
    expect(dialog.get_by_role("alert")).to_contain_text("too long for one request")


SCHEMA = {
    "type": "object",
    "required": ["names"],
    "properties": {
        "times": {"type": "integer", "default": 3, "maximum": 9, "title": "How often"},
        "names": {"type": "array", "items": {"type": "string"}, "description": "Of tasks"},
        "how": {"type": "string", "enum": ["all", "some"]},
        "dry": {"type": "boolean"},
        "other": {"type": "object"},
    },
}


def test_the_input_of_an_action_is_a_form_made_of_its_schema(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    build = _offer(scene, [_action(schema=SCHEMA, task=_template(scene.task_queue))], _may_create(scene))
    dialog = _choose(open_page(f"/tasks/{build}"), "Do again")
    create = dialog.get_by_role("button", name="Create the action task")
    show = dialog.get_by_role("button", name="Show the action task")
    expect(dialog.get_by_label("How often")).to_have_value("3")
    show.click()
    expect(dialog.get_by_role("alert")).to_have_text("names is needed.")
    dialog.get_by_label("names").fill("a\nb")
    dialog.get_by_label("How often").fill("10")
    show.click()
    expect(dialog.get_by_role("alert")).to_have_text("How often must be a number, at most 9.")
    dialog.get_by_label("How often").fill("4")
    dialog.get_by_role("combobox").select_option("some")
    dialog.get_by_label("dry").check()
    dialog.get_by_label("other").fill('{"x": [1]}')
    expect(create).to_have_count(0)
    show.click()
    expect(dialog.locator("pre")).to_contain_text("times: 4")
    wanted = {"times": 4, "names": ["a", "b"], "how": "some", "dry": True, "other": {"x": [1]}}
    dialog.get_by_role("button", name="As JSON").click()
    field = dialog.get_by_label("Input (JSON)")
    assert json.loads(field.input_value()) == wanted
    expect(create).to_have_count(0)  # what was shown is what is sent
    field.fill(json.dumps({**wanted, "times": 5}))
    show.click()
    expect(dialog.locator("pre")).to_contain_text("times: 5")
    create.click()
    expect(dialog).to_have_count(0)
    [(_, sent, _)] = _creations(watch)
    assert sent["payload"]["command"][2] == {**wanted, "times": 5}


def test_a_group_has_actions_of_its_own(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    """Those without a context, which get no task; nothing is read of them before somebody opens them."""
    actions = [_action("add", context=[], task=_template(scene.task_queue)), _action("again")]
    build = _offer(scene, actions, _may_create(scene))
    page = open_page(f"/tasks/groups/{scene.group}")
    expect(page.get_by_role("link", name="build")).to_be_visible()
    assert [request.url for request in watch.requests if "actions.json" in request.url] == []
    dialog = _choose(page, "Do add")
    dialog.get_by_role("button", name="Create the action task").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("again")
    [(_, sent, _)] = _creations(watch)
    assert sent["payload"]["command"][1:] == [None, None]
    page.goto(f"/tasks/{build}")
    page.get_by_text(MENU).click()
    expect(page.locator("details.menu").get_by_role("button")).to_have_text("Do again")


def test_a_task_of_another_group_offers_nothing(scene: Scene, deployment: Deployment, open_page: OpenPage) -> None:
    """Anybody may create a task whose id is the id of a group that has no decision task."""
    build = scene.create("build")
    stranger = Scene(deployment)
    stranger.create("decision", task_id=scene.group, taskGroupId=new_slugid())
    stranger.claim("decision")
    content = json.dumps({"version": 1, "actions": [_action()], "variables": {}}).encode()
    stranger.upload("decision", FILE, content, "application/json")
    stranger.complete("decision")
    page = open_page(f"/tasks/{build}")
    page.get_by_text(MENU).click()
    expect(page.get_by_text("The project offers no actions for this task.")).to_be_visible()


def _malformed() -> list[Any]:
    """Returns entries that are no actions, or have parts of another kind."""
    contexts: list[Any] = [[None], None, "x", {"a": "b"}, [1], [{"a": 1}], [[]]]
    texts: list[dict[str, Any]] = [
        {"title": {"type": "script", "props": {}}},
        {"title": "x" * 256},
        {"name": ["x"]},
        {"description": {"a": 1}},
        {"description": "x" * 5000},
        {"kind": "other"},
        {"kind": None},
        {"kind": "__proto__"},
        {"task": None},
        {"task": "x"},
        {"task": [1]},
    ]
    return [
        *(None, 1, "x", [], {}),
        *(_action(f"context {number}", context=context) for number, context in enumerate(contexts)),
        *({**_action(f"part {number}"), **changes} for number, changes in enumerate(texts)),
    ]


def test_malformed_actions_are_left_out(scene: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{_offer(scene, [*_malformed(), _action('good')])}")
    page.get_by_text(MENU).click()
    expect(page.locator("details.menu").get_by_role("button")).to_have_text("Do good")


MALFORMED = ("null", '{"version": 2, "actions": []}', '{"version": 1, "actions": {"0": null}}')


@pytest.mark.parametrize(
    "content",
    ["x", *(pytest.param(text, marks=pytest.mark.large) for text in MALFORMED)],
)
def test_a_malformed_file_is_named(content: str, scene: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{_offer(scene, content.encode())}")
    page.get_by_text(MENU).click()
    expect(page.get_by_text("No actions of the project: public/actions.json")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("build")


def test_malformed_schemas_break_nothing(scene: Scene, open_page: OpenPage) -> None:
    schemas: list[Any] = [None, 1, "x", []]
    schemas += [{"type": "object", "properties": properties} for properties in ("x", {"a": "x"}, {"a": None})]
    actions = [_action(str(number), schema=schema) for number, schema in enumerate(schemas)]
    page = open_page(f"/tasks/{_offer(scene, actions)}")
    page.get_by_text(MENU).click()
    for number in range(len(schemas)):
        page.get_by_role("button", name=f"Do {number}", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Show the action task").click()
        expect(dialog.locator("pre")).to_contain_text("scopes: []")
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)


def test_many_actions_leave_the_page_usable(scene: Scene, open_page: OpenPage) -> None:
    """A file of less than 2 MiB, whose actions are all for this task."""
    page = open_page(f"/tasks/{_offer(scene, [_action(f'x{number}', description='') for number in range(15_000)])}")
    page.get_by_text(MENU).click()
    expect(page.get_by_text("The first 50 of 15000.")).to_be_visible()
    expect(page.locator("details.menu").get_by_role("button")).to_have_count(50)
    page.get_by_role("button", name="Retrigger", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.large
def test_a_file_that_is_too_large_is_not_read_to_its_end(scene: Scene, open_page: OpenPage) -> None:
    huge = _action(schema={"default": "x" * 3_000_000})
    page = open_page(f"/tasks/{_offer(scene, [huge])}")
    page.get_by_text(MENU).click()
    expect(page.get_by_text("is larger than 2 MiB")).to_be_visible()


@pytest.mark.large
def test_a_huge_schema_fills_its_field_alone(scene: Scene, open_page: OpenPage) -> None:
    properties = {f"p{number}": {"default": "x" * 1000, "title": "x"} for number in range(1500)}
    page = open_page(f"/tasks/{_offer(scene, [_action(schema={'type': 'object', 'properties': properties})])}")
    dialog = _choose(page, "Do again")
    assert len(dialog.get_by_label("Input").input_value()) > 1_500_000
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


LONG_TEXT = {"$reduce": {"$eval": "range(0, 7)"}, "each(sum, item)": {"$eval": "sum + sum"}, "initial": "x" * 1_000_000}
ENDLESS = {
    "$let": {"long": LONG_TEXT},
    "in": {"$reduce": {"$eval": "range(0, 400)"}, "each(sum, item)": {"$eval": "lowercase(long)"}, "initial": ""},
}
DOUBLING = {
    "$let": {"a0": ["x" * 1000] * 1000},
    "in": {"$flattenDeep": [[{"$eval": "a0"}] * 50] * 400},
}
UNFIT: Mapping[str, Any] = {
    "makes no task": {"$eval": "1"},
    "cannot be rendered": {"$eval": "nothing"},
    "makes too large a task": {"$eval": "range(0, 300000)"},
    "takes too long": ENDLESS,
    "makes too many values": DOUBLING,
}


@pytest.mark.parametrize("said", [pytest.param(said, marks=pytest.mark.large) for said in UNFIT])
def test_a_template_that_makes_no_task_is_refused_while_the_page_goes_on(
    said: str, scene: Scene, open_page: OpenPage
) -> None:
    page = open_page(f"/tasks/{_offer(scene, [_action(task=UNFIT[said])])}")
    dialog = _choose(page, "Do again")
    page.keyboard.press("Tab")  # the page's own thread is free
    expect(dialog.get_by_role("alert")).to_contain_text(said)
    expect(dialog.get_by_role("button", name="Create the action task")).to_have_count(0)


@pytest.mark.large
def test_neither_variables_nor_templates_reach_the_page(scene: Scene, open_page: OpenPage) -> None:
    content = {
        "version": 1,
        "variables": {"taskId": "another"},
        "actions": [_action(task={"payload": {"id": {"$eval": "taskId"}}, "constructor": {"prototype": 1}})],
    }
    raw = json.dumps(content).replace('"taskId": "another"', '"taskId": "another", "__proto__": {"polluted": 1}')
    build = _offer(scene, raw.encode())
    page = open_page(f"/tasks/{build}")
    dialog = _choose(page, "Do again")
    expect(dialog.locator("pre")).to_contain_text(f"id: {build}")
    assert page.evaluate("({}).polluted") is None


def test_the_first_action_of_a_name_that_is_for_the_task_counts(scene: Scene, open_page: OpenPage) -> None:
    """An action that is for other tasks takes no name away, as the specification has it."""
    actions = [
        _action(title="For tests", context=[{"kind": "test"}]),
        _action(title="For all"),
        _action(title="Too late"),
        _action("hook", kind="hook", title="By a hook"),
    ]
    page = open_page(f"/tasks/{_offer(scene, actions)}")
    page.get_by_text(MENU).click()
    buttons = page.locator("details.menu").get_by_role("button")
    expect(buttons).to_have_text(["For all", "By a hook"])
    expect(buttons.last).to_be_disabled()
