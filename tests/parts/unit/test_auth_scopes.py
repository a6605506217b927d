"""Satisfaction, expressions and templates (contract 11.5, 2.2)."""

import json

import pytest

from shared.api import scopes


@pytest.mark.parametrize(
    ("held", "scope", "satisfied"),
    [
        ("foo", "foo", True),
        ("foo", "foobar", False),
        ("foo*", "foo", True),
        ("foo*", "foobar", True),
        ("*", "", True),
        ("", "", True),
        ("foo:*", "foo:*", True),
        ("foo*", "foo:*", True),
        ("foo:a*", "foo:*", False),
        ("foo:*:x", "foo:bar:x", False),
        ("foo:*:x", "foo:*:x", True),
        ("foo**", "foo*bar", True),
        ("foo**", "foobar", False),
    ],
)
def test_a_scope_satisfies_another(held: str, scope: str, satisfied: bool) -> None:
    assert scopes.satisfies(scopes.ScopeSet([held]), scope) is satisfied


@pytest.mark.parametrize(
    ("expression", "satisfied"),
    [
        ({"AllOf": []}, True),
        ({"AnyOf": []}, False),
        ({"AllOf": ["a", "b:1"]}, True),
        ({"AllOf": ["a", "c"]}, False),
        ({"AnyOf": ["c", "b:1"]}, True),
        ({"AnyOf": ["c", {"AllOf": ["a", "b:"]}]}, True),
        ({"AllOf": [{"AnyOf": ["a"]}, {"AnyOf": ["c", "d"]}]}, False),
    ],
)
def test_expressions(expression: scopes.Expression, satisfied: bool) -> None:
    assert scopes.satisfies(scopes.ScopeSet(["a", "b:*"]), expression) is satisfied


@pytest.mark.parametrize(
    ("expression", "lacking"),
    [
        ("a", None),
        ("c", "c"),
        ({"AllOf": ["a", "b:1", "c", "d"]}, {"AllOf": ["c", "d"]}),
        ({"AllOf": ["a", "c"]}, "c"),
        ({"AllOf": []}, None),
        ({"AnyOf": []}, {"AnyOf": []}),
        ({"AnyOf": ["c", "a"]}, None),
        ({"AnyOf": ["c", {"AllOf": ["a", "d"]}]}, {"AnyOf": ["c", "d"]}),
    ],
)
def test_what_is_missing(expression: scopes.Expression, lacking: scopes.Expression | None) -> None:
    assert scopes.missing(scopes.ScopeSet(["a", "b:*"]), expression) == lacking


def test_normal_form_has_stars_first_and_drops_what_they_cover() -> None:
    assert list(scopes.ScopeSet(["b", "a", "a*", "a:b*", "ab", "c", "c", ""])) == ["", "a*", "b", "c"]
    assert list(scopes.ScopeSet(["x", "*", "y*"])) == ["*"]
    assert list(scopes.ScopeSet(["a:b", "a", "a:*"])) == ["a", "a:*"]


CREATE_TASK: scopes.Template = {
    "AllOf": [
        {"for": "scope", "in": "scopes", "each": "<scope>"},
        {"for": "route", "in": "routes", "each": "queue:route:<route>"},
        "queue:create-task:project:<projectId>",
        {
            "AnyOf": [
                {
                    "for": "priority",
                    "in": "priorities",
                    "each": "queue:create-task:<priority>:<provisionerId>/<workerType>",
                }
            ]
        },
        {"if": "legacy", "then": "queue:define-task:<provisionerId>/<workerType>"},
    ]
}


def test_rendering_a_template() -> None:
    params: scopes.Params = {
        "scopes": ["a", "b"],
        "routes": [],
        "projectId": "none",
        "priorities": ["high", "highest"],
        "provisionerId": "p",
        "workerType": "w",
        "legacy": False,
    }
    rendered = scopes.render(CREATE_TASK, params)
    assert rendered == {
        "AllOf": [
            "a",
            "b",
            "queue:create-task:project:none",
            {"AnyOf": ["queue:create-task:high:p/w", "queue:create-task:highest:p/w"]},
        ]
    }
    with_legacy = scopes.render(CREATE_TASK, {**params, "legacy": True})
    assert with_legacy is not None
    assert "queue:define-task:p/w" in json.dumps(with_legacy)


@pytest.mark.parametrize(
    ("template", "params", "error"),
    [
        ("a:<b>", {}, KeyError),
        ("a:<b>", {"b": ["list"]}, TypeError),
        ("a:<b>", {"b": True}, TypeError),
        ({"AllOf": [{"for": "x", "in": "xs", "each": "<x>"}]}, {"xs": "text"}, TypeError),
        ({"if": "x", "then": "a"}, {"x": "yes"}, TypeError),
        ({"NoneOf": []}, {}, TypeError),
        ({"AllOf": [], "AnyOf": []}, {}, TypeError),
    ],
)
def test_a_template_that_does_not_fit_its_params(
    template: scopes.Template, params: scopes.Params, error: type[Exception]
) -> None:
    with pytest.raises(error):
        scopes.render(template, params)


def test_params_of_a_template() -> None:
    assert scopes.params_of(CREATE_TASK) == {
        "scopes",
        "routes",
        "projectId",
        "priorities",
        "provisionerId",
        "workerType",
        "legacy",
    }
    assert scopes.params_of("queue:reclaim-task:<taskId>/<runId>") == {"taskId", "runId"}
